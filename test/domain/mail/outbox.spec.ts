import type { SMTPServerOptions } from 'smtp-server';
import { MailWorker } from '../../../src/domain/mail/mail-worker.js';
import { Outbox, type ClaimLimits } from '../../../src/domain/mail/outbox.js';
import { computeDigest } from '../../../src/foundation/crypto/secret.js';
import { Database } from '../../../src/foundation/database/database.js';
import { PurgeJob } from '../../../src/domain/maintenance/jobs.js';
import { eventually } from '../../../tools/eventually.js';
import { recorded } from '../audit/record.js';
import { atOnce } from '../../support/at-once.js';
import {
  MAIL_VARIABLES,
  MailServer,
  SilentServer,
  countWaiting,
  receive,
  receiveToken,
  useMailServer,
  workOff,
} from '../../support/mail-server.js';
import { metricsUrl, scrape } from '../../support/scrape.js';
import { PASSWORD, UNLEASED } from '../../support/settings.js';
import { TestApp } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';

const FIRST_ATTEMPT_TIMEOUT_MS = 10_000;
const request = (app: TestApp, email: string) => app.post('/api/v0/auth/password-reset', { email }).expect(202);
const isValid = async (app: TestApp, token: string): Promise<boolean> => {
  const digest = computeDigest(token);
  return (await app.database.query('SELECT FROM one_time_tokens WHERE digest = $1', [digest])).length === 1;
};

describe('a mail in the outbox', () => {
  const { server, variables } = useMailServer({ METRICS_PORT: '0' });
  const app = useApp({ variables });
  const count = async (outcome: string): Promise<number> =>
    (await scrape(app)).value('mails_total', { kind: 'password_reset', outcome }) ?? 0;

  afterEach(() => server.accept());

  it('is sent again after a 4xx, as a server that greylists demands, and the retry voids the token before it', async () => {
    const alice = await app.user();
    server.refuse('rcpt', 451);
    await request(app, alice.email);
    const [{ now: tried }] = (await app.database.query('SELECT now()::text AS now')) as [{ now: string }];
    await workOff(app);
    expect(server.to(alice.email)).toEqual([]);
    const [waiting] = await app.database.query<{ attempts: number; in_seconds: number }>(
      'SELECT attempts, extract(epoch FROM next_attempt_at - $1::timestamptz)::int AS in_seconds FROM mail_requests',
      [tried],
    );
    expect(waiting!.attempts).toBeGreaterThan(0);
    expect(waiting!.in_seconds).toBeGreaterThan(2);
    const [before] = await app.database.query<{ digest: Buffer }>(
      'SELECT digest FROM one_time_tokens WHERE user_id = $1',
      [alice.id],
    );
    server.accept();
    const token = await receiveToken(app, server, alice.email);
    expect(await isValid(app, token)).toBe(true);
    expect(computeDigest(token).equals(before!.digest)).toBe(false);
    expect(await app.database.query('SELECT FROM one_time_tokens WHERE digest = $1', [before!.digest])).toEqual([]);
    expect(await countWaiting(app)).toBe(0);
  });

  it('is tried again after a 5xx that is not about the mail: the operator can mend the settings', async () => {
    const bob = await app.user();
    server.refuse('mail', 550);
    await request(app, bob.email);
    await workOff(app);
    expect(await countWaiting(app)).toBe(1);
    await app.database.query('DELETE FROM mail_requests');
  });

  it.each(['rcpt', 'data'] as const)(
    'is given up after a 5xx at %s: recorded, counted, and not tried again',
    async (step) => {
      const bob = await app.user();
      const failed = await count('failed');
      server.refuse(step, 550);
      await request(app, bob.email);
      await workOff(app);
      await eventually('it is given up', async () => (await countWaiting(app)) === 0);
      const [event] = await recorded(app, { subject: bob.id, event: 'user.mail.failed' });
      expect(event).toMatchObject({ details: { kind: 'password_reset', attempts: expect.any(Number) } });
      await eventually('it is counted', async () => (await count('failed')) === failed + 1);
      const { attempts } = server;
      await workOff(app);
      expect(server.attempts).toBe(attempts);
    },
  );

  it('is recorded with the request that asked for it, when it is sent', async () => {
    const carol = await app.user();
    const { headers } = await request(app, carol.email);
    await receive(app, server, carol.email);
    await eventually('it is recorded', async () => (await countWaiting(app)) === 0);
    expect(await recorded(app, { subject: carol.id, event: 'user.mail.sent' })).toMatchObject([
      {
        request_id: headers['x-request-id'],
        actor: { door: 'service', id: null },
        details: { kind: 'password_reset' },
      },
    ]);
  });

  it('is sent once, also when four replicas work the outbox off at the same time', async () => {
    const replicas = await atOnce(3, () => app.startReplica({ variables: { METRICS_PORT: undefined } }));
    const users = await atOnce(12, () => app.user());
    for (const { email } of users) await request(app, email);
    await Promise.all([app, ...replicas].map((each) => each.nest.get(MailWorker).sendDueMails()));
    await eventually('all are sent', async () => (await countWaiting(app)) === 0);
    expect(users.map(({ email }) => server.to(email).length)).toEqual(users.map(() => 1));
    await Promise.all(replicas.map((replica) => replica.stop()));
  });

  it('is composed without its token being logged or stored anywhere but as a digest', async () => {
    const dave = await app.user();
    await request(app, dave.email);
    const token = await receiveToken(app, server, dave.email);
    const tables = await app.database.query<{ name: string }>(
      `SELECT quote_ident(relname) AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
    );
    expect(tables.length).toBeGreaterThan(10);
    let dump = '';
    for (const { name } of tables) dump += JSON.stringify(await app.database.query(`SELECT t::text FROM ${name} AS t`));
    expect(dump).toContain(dave.email);
    expect(dump).toContain(computeDigest(token).toString('hex'));
    const secret = token.slice('pa_reset_'.length);
    const forms = [secret, Buffer.from(secret).toString('hex'), Buffer.from(secret, 'base64url').toString('hex')];
    for (const form of forms) {
      expect(dump).not.toContain(form);
      expect(JSON.stringify(app.log.lines)).not.toContain(form);
    }
    expect(JSON.stringify(app.log.lines)).not.toContain(dave.email);
  });

  it('is counted while it waits, by a gauge and by outcome', async () => {
    const answer = await (await fetch(metricsUrl(app))).text();
    for (const kind of ['password_reset', 'email_verification', 'email_change', 'email_change_notice'])
      for (const outcome of ['sent', 'delayed', 'failed', 'dropped'])
        expect(answer).toContain(`platform_auth_mails_total{kind="${kind}",outcome="${outcome}"}`);
    expect(answer).toContain('platform_auth_mails_waiting');
  });

  it('is given up after 24 hours: recorded with the request that asked for it, where the address has an account', async () => {
    const erin = await app.user();
    const session = await erin.logsIn();
    server.refuse('rcpt', 451);
    const reset = await request(app, erin.email);
    const change = await app
      .post('/api/v0/users/me/email', { password: PASSWORD, new_email: 'erin-new@example.org' })
      .set('Authorization', `Bearer ${session.access_token}`)
      .expect(202);
    await workOff(app);
    const tokens = await app.database.query('SELECT * FROM one_time_tokens ORDER BY digest');
    const failed = await count('failed');
    await app.database.query(
      `INSERT INTO mail_requests (id, kind, recipient) VALUES (gen_random_uuid(), 'password_reset', 'nobody@example.org')`,
    );
    await app.database.query(`UPDATE mail_requests SET requested_at = now() - interval '25 hours'`);
    await workOff(app);
    expect(await countWaiting(app)).toBe(0);
    const outcomes = await recorded(app, { subject: erin.id, event: 'user.mail.failed' });
    const toOutcome = (kind: string, { headers }: { headers: Record<string, string> }) =>
      expect.objectContaining({
        request_id: headers['x-request-id'],
        details: expect.objectContaining({ kind }) as unknown,
      }) as unknown;
    expect(outcomes).toHaveLength(3);
    expect(outcomes).toEqual(
      expect.arrayContaining([
        toOutcome('password_reset', reset),
        toOutcome('email_change', change),
        toOutcome('email_change_notice', change),
      ]),
    );
    await eventually('they are counted', async () => (await count('failed')) > failed);
    expect(await app.database.query('SELECT * FROM one_time_tokens ORDER BY digest')).toEqual(tokens);
  });

  it('waits while the clocks of this replica and of PostgreSQL differ, and is neither sent nor given up', async () => {
    const { email } = await app.user();
    const days = 2;
    app.clock.drift({ days });
    await request(app, email);
    await app.database.query(`UPDATE mail_requests SET requested_at = now() - interval '2 days'`);
    await workOff(app);
    expect(await app.database.query('SELECT attempts FROM mail_requests')).toEqual([{ attempts: 0 }]);
    app.clock.drift({ days: -days });
    await app.database.query('UPDATE mail_requests SET requested_at = now()');
    expect(await receiveToken(app, server, email)).toBeDefined();
  });

  it('is purged when no service sends mail any more', async () => {
    await app.database.query(
      `INSERT INTO mail_requests (id, kind, recipient, requested_at, next_attempt_at)
       VALUES (gen_random_uuid(), 'password_reset', 'old@example.org', now() - interval '3 days', now() + interval '1 day')`,
    );
    await app.database.query(`UPDATE one_time_tokens SET expires_at = now() - interval '1 day'`);
    await app.nest.get(PurgeJob).purgeExpired();
    expect(await countWaiting(app)).toBe(0);
    expect(await app.database.query('SELECT FROM one_time_tokens')).toEqual([]);
  });
});

describe('recipients at a slow server', () => {
  const { server, variables } = useMailServer({ TRUST_PROXY: '1' });
  const app = useApp({ variables });
  /** More than a worker has slots. */
  const SLOW = 8;
  const ask = (email: string, address: string) => request(app, email).set('X-Forwarded-For', address);
  /** Names of domains that no other test uses. */
  const slowUsers = async (toEmail: (index: number) => string) => {
    const emails = Array.from({ length: SLOW }, (_, index) => toEmail(index));
    for (const email of emails) await app.user(email);
    server.isSlow = (address) => emails.includes(address);
    return emails;
  };

  afterEach(async () => {
    await app.database.query(`DELETE FROM mail_requests`);
    server.release();
    await app.nest.get(MailWorker).sendDueMails();
  });

  it.each<[string, (index: number) => string, (index: number) => string]>([
    ['of one network', (index) => `a@slow-${index}.test`, () => '203.0.113.5'],
    ['of one IPv6 site', (index) => `b@slow-${index}.test`, (index) => `2001:db8:5:${index}::1`],
    ['of one domain', (index) => `user-${index}@slow.test`, (index) => `203.0.113.${index}`],
  ])('%s do not delay the mail of a stranger', async (_what, toEmail, toAddress) => {
    const emails = await slowUsers(toEmail);
    const stranger = await app.user();
    for (const [index, email] of emails.entries()) await ask(email, toAddress(index));
    await eventually('a conversation hangs', () => server.held.size > 0);
    await ask(stranger.email, '198.51.100.1');
    await eventually('the mail arrives', () => server.to(stranger.email).length > 0);
    expect(server.held.size).toBe(1);
  });

  it('that are tried again leave slots for first attempts', async () => {
    const emails = await slowUsers((index) => `c@again-${index}.test`);
    const stranger = await app.user();
    for (const [index, email] of emails.entries())
      await app.database.query(
        `INSERT INTO mail_requests (id, kind, recipient, attempts, networks)
         VALUES (gen_random_uuid(), 'password_reset', $1, 1, ARRAY[$2])`,
        [email, `203.0.113.${index}`],
      );
    void app.nest.get(MailWorker).sendDueMails();
    await eventually('retries hang', () => server.held.size === 3);
    await ask(stranger.email, '198.51.100.1');
    await eventually('the mail arrives', () => server.to(stranger.email).length > 0);
    expect(server.held.size).toBe(3);
  });
});

describe('the next mail of a worker', () => {
  const app = useApp({ variables: UNLEASED });
  let outbox: Outbox;
  const add = (recipient: string, address: string) =>
    outbox.addRequest('password_reset', recipient, { requestId: null, address });
  const claim = async (claim: Partial<ClaimLimits> = {}): Promise<string | undefined> => {
    const all = { busyNetworks: [], busyDomains: [], servedNetworks: [], mayTakeFirst: true, mayTakeRetry: true };
    return (await outbox.claimNextRequest({ ...all, ...claim }))?.recipient;
  };
  beforeAll(async () => {
    outbox = app.nest.get(Outbox);
    // Its own worker would take them.
    await app.nest.get(MailWorker).onModuleDestroy();
  });
  afterEach(() => app.database.query('DELETE FROM mail_requests'));

  it('is a first attempt before a retry, and then one of a network that had no turn yet', async () => {
    await add('retry@a.test', '203.0.113.1');
    await app.database.query('UPDATE mail_requests SET attempts = 1');
    await add('older@b.test', '203.0.113.2');
    await add('newer@c.test', '203.0.113.3');
    expect(await claim({ servedNetworks: ['203.0.113.2'] })).toBe('newer@c.test');
    expect(await claim()).toBe('older@b.test');
    expect(await claim()).toBe('retry@a.test');
    expect(await claim()).toBeUndefined();
  });

  it('is of no domain and no network that has a slot', async () => {
    await add('one@a.test', '203.0.113.1');
    await add('two@b.test', '203.0.113.2');
    expect(await claim({ busyDomains: ['a.test'], busyNetworks: ['203.0.113.2'] })).toBeUndefined();
    expect(await claim({ busyDomains: ['a.test'] })).toBe('two@b.test');
  });

  it('is one that another network asked for too: an attacker moves no mail behind its own', async () => {
    await add('owner@a.test', '203.0.113.1');
    await add('owner@a.test', '2001:db8:5:7::1');
    await add('owner@a.test', '203.0.113.1');
    expect(await claim({ busyNetworks: ['203.0.113.1', '2001:db8:5::/48'] })).toBeUndefined();
    expect(await claim({ busyNetworks: ['203.0.113.1'] })).toBe('owner@a.test');
  });
});

describe('a mail server that hangs', () => {
  let silent: SilentServer;
  let app: TestApp;
  beforeAll(async () => {
    silent = await SilentServer.start();
    app = await TestApp.start({ variables: { ...UNLEASED, ...MAIL_VARIABLES, MAIL_URL: silent.url } });
  });
  afterAll(async () => {
    await app.stop();
    silent.stop();
  });

  it('delays no response, holds no connection and no lock of PostgreSQL, and is given up for the time being', async () => {
    const limit = new AbortController();
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    const setTimeLimit = jest.spyOn(AbortSignal, 'timeout');
    setTimeLimit.mockImplementation((ms) => (ms === FIRST_ATTEMPT_TIMEOUT_MS ? limit.signal : timeout(ms)));
    const alice = await app.user();
    await request(app, alice.email);
    const run = app.nest.get(MailWorker).sendDueMails();
    await eventually('the worker waits for the greeting', () => silent.sockets.length > 0);
    await request(app, alice.email);
    await alice.logsIn();
    const database = app.nest.get(Database);
    await eventually('every connection is idle', () => database.pool.idle === database.pool.total);
    expect(database.pool.total).toBeGreaterThan(0);
    expect(
      await app.database.query(
        `SELECT query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND datname = current_database()`,
      ),
    ).toEqual([]);
    expect(setTimeLimit).toHaveBeenCalledWith(FIRST_ATTEMPT_TIMEOUT_MS);
    limit.abort();
    await run;
    setTimeLimit.mockRestore();
    const [row] = await app.database.query('SELECT attempts, next_attempt_at > now() AS later FROM mail_requests');
    expect(row).toEqual({ attempts: 1, later: true });
  });

  it('does not delay a stop, and the mail is left to the next start', async () => {
    const replica = await app.startReplica();
    await app.database.query('UPDATE mail_requests SET next_attempt_at = now()');
    const { length } = silent.sockets;
    void replica.nest.get(MailWorker).sendDueMails();
    await eventually('the worker waits for the greeting', () => silent.sockets.length > length);
    await replica.stop();
    const [row] = await app.database.query('SELECT next_attempt_at <= now() AS due FROM mail_requests');
    expect(row).toEqual({ due: true });
  });
});

describe('the connection to the mail server', () => {
  /** Asks an application that sends its mails to this server for one. */
  const whileWaiting = async (
    options: SMTPServerOptions,
    toUrl: (port: number) => string,
    check: (server: MailServer, app: TestApp, email: string) => Promise<void> | void,
  ): Promise<void> => {
    const server = new MailServer(options);
    await server.start();
    const app = await TestApp.start({ variables: { ...UNLEASED, ...MAIL_VARIABLES, MAIL_URL: toUrl(server.port) } });
    const { email } = await app.user();
    await request(app, email);
    await workOff(app);
    expect(server.mails).toEqual([]);
    expect(await countWaiting(app)).toBe(1);
    await check(server, app, email);
    await app.stop();
    await server.stop();
  };

  it('is refused without STARTTLS where TLS is required: no mail and no password leaves in plain text', async () => {
    const onAuth = jest.fn();
    const options = { disabledCommands: ['STARTTLS'], allowInsecureAuth: true, onAuth };
    const toUrl = (port: number) => `smtp://user:canary-password@127.0.0.1:${port}?tls=required`;
    await whileWaiting(options, toUrl, (server, app) => {
      expect(onAuth).not.toHaveBeenCalled();
      expect(server.attempts).toBe(0);
      expect(JSON.stringify(app.log.lines)).not.toContain('canary-password');
    });
  });

  it('is refused with a certificate that no authority signed', async () => {
    await whileWaiting(
      { secure: true },
      (port) => `smtps://127.0.0.1:${port}`,
      () => undefined,
    );
  });

  it('logs in with the percent-decoded user and password; a refused login keeps the mail', async () => {
    let password = 'another';
    const options: SMTPServerOptions = {
      authOptional: false,
      hideSTARTTLS: true,
      allowInsecureAuth: true,
      onAuth: (auth, _session, callback) =>
        auth.username === 'user@host' && auth.password === password
          ? callback(null, { user: 'any' })
          : callback(Object.assign(new Error('no'), { responseCode: 535 })),
    };
    const toUrl = (port: number) => `smtp://user%40host:p%3A%2F%23@127.0.0.1:${port}`;
    await whileWaiting(options, toUrl, async (server, app, email) => {
      password = 'p:/#';
      await receive(app, server, email);
    });
  });
});
