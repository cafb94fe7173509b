import { Secret } from 'otpauth';
import { Client } from 'pg';
import { KeyMaterialJob, PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { LOCKS } from '../../../src/foundation/database/locks.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { eventually } from '../../../tools/eventually.js';
import { expectProblem } from '../../support/expect-problem.js';
import { SHORT_WAITS, withPatientReplica } from '../../support/outage.js';
import { holdRow } from '../../support/row-lock.js';
import { MASTER_KEY, UNLEASED } from '../../support/settings.js';
import { expectVerdict } from '../../support/until-verdict.js';
import { useApp, useAppPerTest } from '../../support/use-app.js';
import { Authenticator } from './authenticator.js';
import { logInWithPasskey, FactorOwner, passkeyOptions } from './owner.js';

const app = useApp({ variables: UNLEASED });

const NEW_MASTER_KEY = 'test-deriving-Qw7eRt5yUi3oPa9sDf1gHj6kLz8xCv2b';
const ROTATED = { MASTER_KEY: NEW_MASTER_KEY, MASTER_KEY_PREVIOUS: MASTER_KEY };

describe('a dump of the database', () => {
  it('holds no TOTP secret, no recovery code and no challenge', async () => {
    const owner = await FactorOwner.withTotp(app);
    const { challenge } = await owner.isChallenged();
    await owner.answers(challenge, 'totp', { code: owner.code() }).expect(200);
    const tables = ['totp_factors', 'recovery_codes', 'used_challenges', 'audit_events', 'counted_refusals'];
    let dump = '';
    for (const table of tables) dump += JSON.stringify(await app.database.query(`SELECT t::text FROM ${table} t`));
    expect(dump).toContain(owner.user.id);
    const bytes = (text: string): string => Buffer.from(text, 'base64url').toString('hex');
    const secrets = [
      owner.secret,
      Buffer.from(Secret.fromBase32(owner.secret).bytes).toString('hex'),
      ...owner.recoveryCodes.flatMap((code) => [code, Buffer.from(code).toString('hex')]),
      challenge,
      bytes(challenge),
    ];
    for (const secret of secrets) expect(dump).not.toContain(secret);
  });

  it('has a secret that is of no use in the row of another account', async () => {
    const [owner, thief] = [await FactorOwner.withTotp(app), await FactorOwner.withTotp(app)];
    const copy = `UPDATE totp_factors SET encrypted_secret = (SELECT encrypted_secret FROM totp_factors WHERE user_id = $2)
      WHERE user_id = $1`;
    await app.database.query(copy, [owner.user.id, thief.user.id]);
    const { challenge } = await owner.isChallenged();
    expectProblem(await owner.answers(challenge, 'totp', { code: thief.code() }), problems.totpSecretUnreadable);
  });
});

describe('a rotation of MASTER_KEY', () => {
  const app = useAppPerTest({ variables: UNLEASED });
  const marks = () => app.database.query('SELECT DISTINCT key_mark FROM totp_factors');

  it('keeps authenticator apps, whose secrets the start of a replica encrypts anew', async () => {
    const owner = await FactorOwner.withTotp(app);
    const before = await marks();
    const { challenge } = await owner.isChallenged();
    const during = await app.startReplica({ variables: ROTATED });
    const isDone = async (): Promise<boolean> => JSON.stringify(await marks()) !== JSON.stringify(before);
    await eventually('the secrets are encrypted anew', isDone);
    const isLogged = () =>
      during.log.lines.some(({ message, count }) => message === 'totp_secrets_reencrypted' && count === 1);
    await eventually('it is logged', isLogged);
    await owner.answers(challenge, 'totp', { code: owner.code() }, during).expect(200);
    await during.stop();
    const after = await app.startReplica({ variables: { MASTER_KEY: NEW_MASTER_KEY } });
    app.clock.advance({ seconds: 60 });
    await owner.logsInWithCode(after);
  });

  it('lets one replica at a time encrypt secrets anew, and holds up neither the others nor their starts', async () => {
    const owner = await FactorOwner.withTotp(app);
    const former = await marks();
    const other = new Client(app.database.url);
    await other.connect();
    await other.query('SELECT pg_advisory_lock($1)', [LOCKS.totpSecrets]);
    const during = await app.startReplica({ variables: ROTATED });
    await during.nest.get(KeyMaterialJob).renewKeyMaterial();
    expect(await marks()).toEqual(former);
    await other.end();
    await owner.logsInWithCode(during);
    await during.nest.get(KeyMaterialJob).renewKeyMaterial();
    expect(await marks()).not.toEqual(former);
  });

  it('confirms an enrolment whose secret is encrypted anew between the check of the code and the commit', async () => {
    const during = await app.startReplica({ variables: ROTATED });
    const owner = await FactorOwner.of(app);
    await owner.begins();
    const former = await marks();
    const row = await holdRow(app.database, 'users', owner.user.id);
    const confirmed = Promise.all([owner.post('/totp/confirm', { code: owner.code() }, during).expect(200)]);
    await row.waiting(1);
    await during.nest.get(KeyMaterialJob).renewKeyMaterial();
    expect(await marks()).not.toEqual(former);
    await row.release();
    await confirmed;
    app.clock.advance({ seconds: 60 });
    await owner.logsInWithCode(during);
  });

  it('without MASTER_KEY_PREVIOUS makes codes unavailable, not wrong, says what to do, and leaves the recovery codes', async () => {
    const owner = await FactorOwner.withTotp(app);
    const broken = await app.startReplica({ variables: { MASTER_KEY: NEW_MASTER_KEY } });
    await broken.nest.get(KeyMaterialJob).renewKeyMaterial();
    expect(broken.log.lines).toContainEqual(
      expect.objectContaining({ level: 'error', message: 'totp_secrets_not_decrypted', count: 1 }),
    );
    const { challenge } = await owner.isChallenged(broken);
    const answer = await owner.answers(challenge, 'totp', { code: owner.code() }, broken);
    expectProblem(answer, problems.totpSecretUnreadable);
    const faults = broken.log.lines.filter(({ message }) => message === 'totp_secret_unreadable');
    expect(faults).toEqual([
      expect.objectContaining({
        level: 'error',
        user_id: owner.user.id,
        request_id: answer.headers['x-request-id'],
        reason: expect.stringContaining('MASTER_KEY_PREVIOUS') as string,
      }),
    ]);
    await owner.answers(challenge, 'recovery_code', { code: owner.recoveryCodes[0] }, broken).expect(200);
  });
});

describe('used challenges', () => {
  it('are purged an hour after they have expired', async () => {
    await (await FactorOwner.withTotp(app)).logsInWithCode();
    const count = async () => (await app.database.query('SELECT 1 FROM used_challenges')).length;
    const before = await count();
    await app.nest.get(PurgeJob).purgeExpired();
    expect(before).toBeGreaterThan(0);
    expect(await count()).toBe(before);
    await app.database.query(`UPDATE used_challenges SET expires_at = now() - interval '61 minutes'`);
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await count()).toBe(0);
  });
});

describe('a replica whose clock is wrong', () => {
  it('starts no session, and leaves the code and the challenge to another replica', async () => {
    const owner = await FactorOwner.withTotp(app);
    const code = owner.code();
    const { challenge } = await owner.isChallenged();
    const replica = await app.startReplica({ clock: Object.create(app.clock) as typeof app.clock });
    replica.clock.drift({ days: 500 });
    expectProblem(await owner.answers(challenge, 'totp', { code }, replica), problems.unavailable);
    await owner.answers(challenge, 'totp', { code }).expect(200);
  });
});

describe('an unreachable database', () => {
  const app = useApp({ isBehindProxy: true, ...SHORT_WAITS });

  it('makes every second factor unavailable, never wrong, and uses nothing up', async () => {
    const { owner, authenticator, challenge, passkey } = await withPatientReplica(app, async (patient) => {
      const owner = await FactorOwner.withTotp(patient);
      const authenticator = await owner.registers(new Authenticator());
      const { challenge } = await owner.isChallenged();
      return { owner, authenticator, challenge, passkey: authenticator.get(await passkeyOptions(patient)) };
    });
    const code = owner.code();
    await app.proxy.close();
    const answers = [
      await owner.answers(challenge, 'totp', { code }, app),
      await owner.answers(challenge, 'recovery_code', { code: owner.recoveryCodes[0] }, app),
      await owner.answers(challenge, 'passkey', { passkey: authenticator.get({ challenge }) }, app),
      await app.post('/api/v0/auth/login/passkey/options', {}),
      await logInWithPasskey(app, passkey),
      await owner.as(app.get('/api/v0/users/me/passkeys')),
      await owner.post('/totp', { password: owner.user.password }, app),
    ];
    for (const answer of answers) expectProblem(answer, problems.unavailable);
    await app.proxy.open();
    await expectVerdict(200, () => owner.answers(challenge, 'totp', { code }, app));
    await expectVerdict(200, () => logInWithPasskey(app, passkey));
  });
});
