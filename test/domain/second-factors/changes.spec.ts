import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import type { Response } from 'supertest';
import { problems } from '../../../src/foundation/problems/problems.js';
import { readClaims } from '../../../tools/read-claims.js';
import { CodeVerifier } from '../../../src/domain/second-factors/codes.js';
import { RelyingParty } from '../../../src/domain/webauthn/relying-party.js';
import { PasswordVerifier } from '../../../src/domain/passwords/password-verifier.js';
import { recorded } from '../audit/record.js';
import { afterNext, atOnce } from '../../support/at-once.js';
import { expectInvalid, expectProblem } from '../../support/expect-problem.js';
import { PASSWORD, SETTINGS, UNLEASED } from '../../support/settings.js';
import { countByStatus } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { FactorOwner, logInAlone, logInWithPasskey, passkeyOptions } from './owner.js';
import type { Tokens } from '../../support/test-app.js';
import { untilVerdict } from '../../support/until-verdict.js';

const app = useApp({ variables: UNLEASED });
const replica = useReplica(app);

describe('a change of second factors', () => {
  /** Runs an act after a proof has read the password, and before the change that it is for. */
  const afterProof = (act: () => Promise<unknown>): void =>
    afterNext(app.nest.get(PasswordVerifier), 'reauthenticateUser', act);
  const otherPassword = (owner: FactorOwner) => (): Promise<unknown> =>
    app.database.query(
      `UPDATE users SET password_changed_at = GREATEST(now(), password_changed_at) + interval '1 second' WHERE id = $1`,
      [owner.user.id],
    );

  it.each([
    ['an app', 'user.totp.enrolled', (owner: FactorOwner) => owner.enrols()],
    ['a passkey', 'user.passkey.added', (owner: FactorOwner) => owner.registers()],
  ])('ends the other sessions when %s is the first factor, and this one goes on', async (_name, event, add) => {
    const owner = await FactorOwner.of(app);
    const other = await owner.user.logsIn();
    await add(owner);
    expectProblem(await replica.me(other.access_token), problems.invalidAccessToken);
    expectProblem(await app.refresh(other.refresh_token), problems.invalidRefreshToken);
    await app.me(owner.tokens.access_token).expect(200);
    expect(await recorded(app, { event, subject: owner.user.id })).toMatchObject([{ details: { ended_sessions: 1 } }]);
  });

  it('keeps the other sessions when there is a factor already', async () => {
    const owner = await FactorOwner.withTotp(app);
    const other = await owner.logsInWithCode();
    await owner.registers();
    await app.me(other.access_token).expect(200);
    const [added] = await recorded(app, { event: 'user.passkey.added', subject: owner.user.id });
    expect(added!.details).not.toHaveProperty('ended_sessions');
  });

  it('asks a login for the factor that was added after it verified the password: it is right, so not 401', async () => {
    const owner = await FactorOwner.of(app);
    afterNext(app.nest.get(PasswordVerifier), 'verifyPassword', () => owner.enrols());
    const answer = await app.login(owner.user.email);
    expectProblem(answer, problems.secondFactorRequired);
    app.clock.advance({ seconds: 60 });
    const { challenge } = answer.body as { challenge: string };
    await owner.answers(challenge, 'totp', { code: owner.code() }).expect(200);
  });

  it('leaves logins alone that verified the password before an enrolment began, or was refused', async () => {
    const owner = await FactorOwner.of(app);
    const enrol = () => owner.post('/totp', { password: PASSWORD }).expect(201);
    afterNext(app.nest.get(PasswordVerifier), 'verifyPassword', enrol);
    await app.login(owner.user.email).expect(200);

    const enrolled = await FactorOwner.withTotp(app);
    const sql = 'SELECT factors_changed_at FROM users WHERE id = $1';
    const before = await app.database.query(sql, [enrolled.user.id]);
    expectProblem(await enrolled.post('/totp', await enrolled.proof()), problems.totpEnrolled);
    expect(await app.database.query(sql, [enrolled.user.id])).toEqual(before);
  });

  it('refuses a session that ended after the password was verified', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    const other = await owner.user.logsIn();
    await owner.registers();
    const [id] = await owner.passkeyIds();
    const proof = await owner.proof();
    afterProof(() => app.logout(owner.tokens.refresh_token).expect(204));
    expectProblem(await owner.post(`/passkeys/${id}/remove`, proof), problems.invalidAccessToken);
    expectProblem(await app.me(other.access_token), problems.invalidAccessToken);
    expectProblem(await owner.offers(passkey), problems.invalidAccessToken);
    await owner.isChallenged();
  });

  it('refuses a password that was changed after it was verified', async () => {
    const owner = await FactorOwner.of(app);
    afterProof(otherPassword(owner));
    expectProblem(await owner.post('/totp', { password: PASSWORD }), problems.wrongPassword);
    expectProblem(await owner.get('/totp'), problems.notFound);
  });

  it('refuses an enrolment and options whose answer was verified before the password was changed', async () => {
    const owner = await FactorOwner.of(app);
    await owner.begins();
    afterNext(app.nest.get(CodeVerifier), 'verifyEnrolmentCode', otherPassword(owner));
    expectProblem(await owner.post('/totp/confirm', { code: owner.code() }), problems.wrongSecondFactor);

    const passkey = new Authenticator().create(await owner.creationOptions());
    afterNext(app.nest.get(RelyingParty), 'verifyRegistration', otherPassword(owner));
    expectInvalid(await owner.offers(passkey), '/passkey');
    await app.login(owner.user.email).expect(200);
  });
});

describe('options of a passkey', () => {
  /** A thief of the password and of an access token. */
  const thiefOf = ({ user, tokens }: FactorOwner) => new FactorOwner(app, user, tokens);

  it.each([
    ['the owner enrols an app', (owner: FactorOwner) => owner.enrols()],
    ['the owner registers a passkey', (owner: FactorOwner) => owner.registers()],
  ])('that a thief got with the password alone are void after %s as first factor', async (_name, add) => {
    const owner = await FactorOwner.of(app);
    const thief = thiefOf(owner);
    const kept = new Authenticator();
    const passkey = kept.create(await thief.creationOptions());
    await add(owner);
    expectInvalid(await thief.offers(passkey), '/passkey');
    expectInvalid(await thief.offers(passkey, replica), '/passkey');
    expectProblem(await logInAlone(app, kept), problems.invalidPasskey);
    expectProblem(await thief.post('/passkeys/options', { password: PASSWORD }), problems.freshSecondFactorRequired);
    const added = await owner.registers();
    expect((await logInAlone(app, added)).status).toBe(200);
  });

  it('are void when the first factor is added while the answer to them is verified', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    afterNext(app.nest.get(RelyingParty), 'verifyRegistration', () => owner.enrols());
    expectInvalid(await owner.offers(passkey), '/passkey');
    expect(await owner.passkeyIds()).toEqual([]);
  });

  it('that the password alone made register one passkey, also when 22 are answered at once over two replicas', async () => {
    const owner = await FactorOwner.of(app);
    const options = await atOnce(22, () => owner.creationOptions());
    const answers = await atOnce(22, (i) =>
      owner.offers(new Authenticator().create(options[i]!), i % 2 ? app : replica),
    );
    expect(countByStatus(answers)).toEqual({ 201: 1, 400: 21 });
    for (const answer of answers) if (answer.status === 400) expectInvalid(answer, '/passkey');
  });

  it('that a fresh factor made are void after another change of the factors, and register a passkey when asked for anew', async () => {
    const owner = await FactorOwner.withTotp(app);
    const changes = [
      () => owner.registers(),
      () => owner.post('/recovery-codes', { password: PASSWORD, code: owner.code() }).expect(200),
      async () => expect((await owner.removesPasskey((await owner.passkeyIds())[0])).status).toBe(204),
    ];
    for (const change of changes) {
      const passkey = new Authenticator().create(await owner.creationOptions());
      await change();
      expectInvalid(await owner.offers(passkey), '/passkey');
    }
    delete owner.authenticator;
    app.clock.advance({ seconds: 60 });
    const { body } = await owner.post('/passkeys/options', { password: PASSWORD, code: owner.code() }).expect(200);
    await owner.offers(new Authenticator().create(body as Parameters<Authenticator['create']>[0])).expect(201);
  });

  it('are void after an operator removed the factors, also for a new session', async () => {
    const owner = await FactorOwner.of(app);
    const passkey = new Authenticator().create(await owner.creationOptions());
    await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    const again = new FactorOwner(app, owner.user, await owner.user.logsIn());
    expectInvalid(await again.offers(passkey), '/passkey');
    await again.registers();
  });
});

describe('how a session was made (amr, RFC 8176)', () => {
  const validate = async (token: string): Promise<unknown> =>
    (await app.post('/internal/validate-user').set('Authorization', `Bearer ${token}`).expect(200)).body as unknown;

  it('is in the access token, kept by each refresh and its repeat, and answered to services', async () => {
    const owner = await FactorOwner.withTotp(app);
    const service = await app.service('recipes', 'auth');
    const first = await owner.logsInWithCode();
    const refresh = async () => (await app.refresh(first.refresh_token).expect(200)).body as Tokens;
    const amr = ['pwd', 'otp', 'mfa'];
    for (const { access_token } of [first, await refresh(), await refresh()]) {
      expect(readClaims(access_token).amr).toEqual(amr);
      expect(await validate(access_token)).toMatchObject({ amr });
      const asked = app.post('/internal/introspect').type('form').send(`token=${access_token}`).set(service.headers);
      expect((await asked.expect(200)).body).toMatchObject({ active: true, amr });
    }
  });

  it('of a session from before the enrolment stays the password alone', async () => {
    const owner = await FactorOwner.withTotp(app);
    expect(readClaims(owner.tokens.access_token).amr).toEqual(['pwd']);
    expect(await validate(owner.tokens.access_token)).toMatchObject({ amr: ['pwd'] });
  });
});

describe('DELETE /api/v0/admin/users/{id}/factors', () => {
  it('removes all factors of a user who has lost them, and ends the sessions', async () => {
    const owner = await FactorOwner.withTotp(app);
    await owner.registers();
    const { challenge } = await owner.isChallenged();
    await app.admin.delete(`/users/${owner.user.id}/factors`).expect(204);
    expectProblem(await app.me(owner.tokens.access_token), problems.invalidAccessToken);
    await app.login(owner.user.email).expect(200);
    expectProblem(await owner.answers(challenge, 'totp', { code: owner.code() }), problems.invalidSecondFactor);
    const rows = await recorded(app, { event: 'admin.user.factors_removed', subject: owner.user.id });
    expect(rows).toMatchObject([{ details: { before: { totp: true, passkeys: 1 }, ended_sessions: 1 } }]);
  });

  it('is idempotent, and 404 for an unknown user', async () => {
    const user = await app.user();
    await app.admin.delete(`/users/${user.id}/factors`).expect(204);
    expect(await recorded(app, { event: 'admin.user.factors_removed', subject: user.id })).toEqual([]);
    expectProblem(await app.admin.delete(`/users/${randomUUID()}/factors`), problems.notFound);
    expectProblem(await app.admin.delete('/users/x/factors'), problems.notFound);
  });
});

describe('a proof whose use could not be committed', () => {
  const app = useApp({ variables: UNLEASED, settings: { databaseStatementTimeoutMs: 500 } });
  /** Makes what the tests need: its timeouts are long. */
  const patient = useReplica(app, { settings: SETTINGS });
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
    ['totp', 'totp_factors'],
    ['totp', 'used_challenges'],
    ['recovery_code', 'recovery_codes'],
    ['recovery_code', 'sessions'],
  ])(
    'of a login with the method %s, blocked at %s, is 503, and the same answer logs in then',
    async (method, table) => {
      const owner = await FactorOwner.withTotp(patient);
      const { challenge } = await owner.isChallenged();
      const proof = { code: method === 'totp' ? owner.code() : owner.recoveryCodes[0] };
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
    const answer = (): PromiseLike<Response> => owner.offers(passkey, app);
    expectProblem(await whileBlocked('passkeys', answer), problems.unavailable);
    expect((await untilVerdict(answer)).status).toBe(201);
  });
});
