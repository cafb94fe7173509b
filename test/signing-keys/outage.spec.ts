import { problems } from '../../src/problems/problems.js';
import { expectProblem } from '../support/expect-problem.js';
import { SHORT_WAITS, withPatientReplica } from '../support/outage.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { TestApp } from '../support/test-app.js';
import { createTestDatabase, type TestDatabase } from '../support/test-database.js';
import { untilVerdict } from '../support/until-verdict.js';
import { ES256, kidOf, readJwks } from './support.js';

describe('while the database is away', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let app: TestApp;

  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await TcpProxy.before(database.url);
    const { settings, variables } = SHORT_WAITS;
    app = await TestApp.start({
      database: { ...database, url: proxy.url },
      settings,
      variables: { ...variables, ...ES256 },
    });
  });

  afterAll(async () => {
    await app.stop();
    await proxy.close();
    await database.drop();
  });

  it('the JWKS is answered from memory, and a token with an unknown kid by 503 instead of a refusal', async () => {
    const { access_token } = await withPatientReplica(app, async (patient) => (await patient.user()).logsIn());
    const jwks = await readJwks(app);
    const unknownKid = Buffer.from(`{"alg":"ES256","typ":"JWT","kid":"${'A'.repeat(43)}"}`).toString('base64url');
    const unknown = access_token.replace(/^[^.]+/, unknownKid);
    await proxy.close();
    expect(await readJwks(app)).toEqual(jwks);
    expectProblem(await app.me(unknown), problems.unavailable);
    expectProblem(await app.me(access_token), problems.unavailable);
    await proxy.open();
    expectProblem(await untilVerdict(() => app.me(unknown)), problems.invalidAccessToken);
    expect(jwks.keys.map(({ kid }) => kid)).toContain(kidOf(access_token));
  });
});
