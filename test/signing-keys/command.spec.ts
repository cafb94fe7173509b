import { writeFileSync } from 'node:fs';
import { problems } from '../../src/problems/problems.js';
import { useCli } from '../support/cli.js';
import { expectProblem } from '../support/expect-problem.js';
import { useApp } from '../support/use-app.js';
import { ES256, kidOf, listKids } from './support.js';

interface Report {
  readonly keys: { readonly kid: string; readonly state: string }[];
}

describe('platform-auth keys, of a service that signs with HS256', () => {
  const app = useApp();
  const cli = useCli(app);

  it('says that there are none, because SECRET_KEY signs', async () => {
    const operate = cli.with({ DATABASE_URL: app.database.url });
    expect(await operate.ok('keys', 'list')).toMatch(
      /^There are no signing keys\. Under HS256 .* signs with SECRET_KEY/,
    );
    expect(await operate.json('keys', 'list')).toEqual({ keys: [] });
  });

  it('reads DATABASE_URL from the file that DATABASE_URL_FILE names', async () => {
    const file = cli.path('database-url');
    writeFileSync(file, app.database.url, { mode: 0o600 });
    expect(await cli.with({ DATABASE_URL_FILE: file }).json('keys', 'list')).toEqual({ keys: [] });
  });
});

describe('platform-auth keys', () => {
  const app = useApp({ variables: ES256 });
  const cli = useCli(app);
  const operate = () => cli.with({ DATABASE_URL: app.database.url });

  it('lists the keys without their secrets', async () => {
    const { keys } = await operate().json<Report>('keys', 'list');
    expect(keys.map(({ kid }) => kid).sort()).toEqual((await listKids(app)).sort());
    expect(keys.map(({ state }) => state).sort()).toEqual(['active', 'next']);
    expect(await operate().ok('keys', 'list')).not.toMatch(/private|encrypted/);
  });

  it('refuses to rotate to a key that caches of the JWKS may not have yet, and changes nothing', async () => {
    const before = await operate().json<Report>('keys', 'list');
    expect(await operate().fails('keys', 'rotate')).toMatch(/^The next key may sign from .*: until then/);
    expect(await operate().json<Report>('keys', 'list')).toEqual(before);
  });

  it('revokes a stolen key, and needs no SECRET_KEY to do it', async () => {
    const { access_token } = await (await app.user()).logsIn();
    const kid = kidOf(access_token)!;
    const { keys } = await operate().json<Report>('keys', 'revoke', kid, '--yes');
    expectProblem(await app.me(access_token), problems.invalidAccessToken);
    expect(keys.find((key) => key.kid === kid)).toMatchObject({ state: 'revoked' });
    expect(await operate().json<Report>('keys', 'revoke', kid, '--yes')).toEqual({ keys });
  });

  it('reports a kid that does not exist', async () => {
    expect(await operate().fails('keys', 'revoke', 'nonsense', '--yes')).toMatch(/^No signing key has this kid/);
    expect(await operate().fails('keys', 'retire', 'nonsense')).toMatch(/^No signing key has this kid/);
  });
});
