import { Client } from 'pg';
import type { Response } from 'supertest';
import { problems } from '../../src/problems/problems.js';
import { recorded } from '../audit/record.js';
import { expectProblem } from '../support/expect-problem.js';
import { PASSWORD, VARIABLES } from '../support/settings.js';
import { untilVerdict } from '../support/until-verdict.js';
import { useApp, useReplica } from '../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner, logInWithPasskey, passkeyOptions } from './owner.js';

describe('a proof whose use could not be committed', () => {
  const app = useApp({ settings: { databaseStatementTimeoutMs: 2_000 } });
  /** Makes what the tests need: its timeouts are long. */
  const patient = useReplica(app, { variables: VARIABLES });
  let holder: Client;

  beforeEach(async () => {
    holder = new Client({ connectionString: app.database.url });
    await holder.connect();
  });

  afterEach(() => holder.end());

  /** The table can be read, and not written. */
  const whileBlocked = async (table: string, act: () => PromiseLike<Response>): Promise<Response> => {
    await holder.query(`BEGIN; LOCK TABLE ${table} IN SHARE MODE`);
    try {
      return await act();
    } finally {
      await holder.query('ROLLBACK');
    }
  };

  const expectNoRefusal = async (owner: FactorOwner): Promise<void> =>
    expect(await recorded(patient, { event: 'user.second_factor.failed', subject: owner.user.id })).toEqual([]);

  it.each([
    ['a code', 'totp_factors', 'totp', (owner: FactorOwner) => ({ code: owner.code() })],
    ['a code', 'used_challenges', 'totp', (owner: FactorOwner) => ({ code: owner.code() })],
    ['a recovery code', 'recovery_codes', 'recovery_code', (owner: FactorOwner) => ({ code: owner.recoveryCodes[0] })],
    ['a recovery code', 'sessions', 'recovery_code', (owner: FactorOwner) => ({ code: owner.recoveryCodes[0] })],
  ])(
    'of a login with %s, blocked at %s, is 503, and the same answer logs in then',
    async (_name, table, method, prove) => {
      const owner = await FactorOwner.withTotp(patient);
      const { challenge } = await owner.isChallenged();
      const proof = prove(owner);
      const answer = (): PromiseLike<Response> => owner.answers(challenge, method, proof, app);
      expectProblem(await whileBlocked(table, answer), problems.unavailable);
      expect((await untilVerdict(answer)).status).toBe(200);
      await expectNoRefusal(owner);
      expectProblem(await untilVerdict(answer), problems.invalidSecondFactor);
    },
  );

  it.each(['passkeys', 'used_challenges', 'sessions'])(
    'of a login with a passkey alone, blocked at %s, is 503, and the same answer logs in then',
    async (table) => {
      const owner = await FactorOwner.of(patient);
      const authenticator = await owner.registers();
      const passkey = authenticator.get(await passkeyOptions(patient));
      const answer = (): PromiseLike<Response> => logInWithPasskey(app, passkey);
      expectProblem(await whileBlocked(table, answer), problems.unavailable);
      expect((await untilVerdict(answer)).status).toBe(200);
      await expectNoRefusal(owner);
      expectProblem(await untilVerdict(answer), problems.invalidPasskey);
    },
  );

  it.each(['/totp/remove', '/recovery-codes'])('at %s is 503, and the same code is accepted then', async (path) => {
    const owner = await FactorOwner.withTotp(patient);
    const body = { password: PASSWORD, code: owner.code() };
    const answer = (): PromiseLike<Response> => owner.post(path, body, app);
    expectProblem(await whileBlocked('recovery_codes', answer), problems.unavailable);
    expect((await untilVerdict(answer)).ok).toBe(true);
    await expectNoRefusal(owner);
  });

  it('of options of a passkey is 503, and the same answer registers it then', async () => {
    const owner = await FactorOwner.of(patient);
    const passkey = new Authenticator().create(await owner.creationOptions());
    const answer = (): PromiseLike<Response> => owner.post('/passkeys', { name: 'phone', passkey }, app);
    expectProblem(await whileBlocked('passkeys', answer), problems.unavailable);
    expect((await untilVerdict(answer)).status).toBe(201);
  });
});
