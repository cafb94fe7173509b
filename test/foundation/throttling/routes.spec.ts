import { randomUUID } from 'node:crypto';
import type { OpenAPIObject } from '@nestjs/swagger';
import { problems } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { ADMIN_KEY, PASSWORD, UNLEASED } from '../../support/settings.js';
import type { TestApp } from '../../support/test-app.js';
import { countByStatus, expectThrottled } from '../../support/throttled.js';
import { useApp, useReplica } from '../../support/use-app.js';
import { AuditJob } from '../../../src/domain/maintenance/jobs.js';
import { recorded } from '../../domain/audit/record.js';

const LIMIT = 6;

interface Operation {
  readonly responses: Record<string, { headers?: object }>;
  readonly security?: object[];
}

describe('registrations and refreshes', () => {
  const one = useApp({
    variables: {
      ...UNLEASED,
      TRUST_PROXY: '1',
      REGISTRATION_LIMIT_PER_ADDRESS: `${LIMIT}/3600`,
      REFRESH_LIMIT_PER_ADDRESS: `${LIMIT}/60`,
    },
  });
  const two = useReplica(one);

  const register = (app: TestApp, address: string, email = `${randomUUID()}@example.org`) =>
    app.post('/api/v0/auth/register', { email, password: PASSWORD }).set('X-Forwarded-For', address);
  const refresh = (app: TestApp, address: string, token = 'unknown') =>
    app.refresh(token).set('X-Forwarded-For', address);
  const eachInTurn = <Answer>(times: number, act: (app: TestApp) => PromiseLike<Answer>): Promise<Answer[]> =>
    Promise.all(Array.from({ length: times }, (_, index) => act(index % 2 ? one : two)));

  it('are limited for one address over all replicas, and then logged', async () => {
    const registrations = await eachInTurn(50, (app) => register(app, '192.0.2.1'));
    expect(countByStatus(registrations)).toEqual({ 201: LIMIT, 429: 50 - LIMIT });
    const refused = expectThrottled(registrations.find(({ status }) => status === 429)!);
    expect(refused).toMatchObject({ policy: 'registration', points: LIMIT, windowSeconds: 3_600 });
    const refreshes = await eachInTurn(50, (app) => refresh(app, '192.0.2.1'));
    expect(countByStatus(refreshes)).toEqual({ 401: LIMIT, 429: 50 - LIMIT });
    await register(one, '192.0.2.2').expect(201);
    expectProblem(await refresh(one, '192.0.2.2'), problems.invalidRefreshToken);
    const lines = [...one.log.lines, ...two.log.lines].filter(({ address }) => address === '192.0.2.1');
    for (const throttled of ['user.registration.throttled', 'session.refresh.throttled'])
      expect(lines.filter(({ event }) => event === throttled)).toHaveLength(50 - LIMIT);
  });

  it('are counted also when they fail, and on the path without /api/v0, and return the remaining budget', async () => {
    const { headers } = await register(one, '192.0.2.3', 'taken@example.org').expect(201);
    expect(headers['ratelimit-policy']).toBe(`"registration";q=${LIMIT};w=3600`);
    expect(headers.ratelimit).toMatch(new RegExp(`^"registration";r=${LIMIT - 1};t=3(600|59\\d)$`));
    for (let left = LIMIT - 1; left > 0; left -= 1)
      expectProblem(await register(one, '192.0.2.3', 'taken@example.org'), problems.emailTaken);
    const short = one.post('/auth/register', { email: 'new@example.org', password: PASSWORD });
    expectThrottled(await short.set('X-Forwarded-For', '192.0.2.3'));
  });

  it('are counted before their body is validated', async () => {
    const invalid = () => one.post('/api/v0/auth/register', {}).set('X-Forwarded-For', '192.0.2.4');
    for (let left = LIMIT - 1; left >= 0; left -= 1) {
      const answer = await invalid();
      expectProblem(answer, problems.validationFailed);
      expect(answer.headers.ratelimit).toContain(`;r=${left};`);
    }
    expectThrottled(await invalid());
  });

  it('do not invalidate a throttled refresh token', async () => {
    const { refresh_token } = await (await one.user()).logsIn();
    await eachInTurn(LIMIT, (app) => refresh(app, '192.0.2.5'));
    expectThrottled(await refresh(one, '192.0.2.5', refresh_token));
    await refresh(one, '192.0.2.6', refresh_token).expect(200);
  });

  it('are documented with 429 and its headers, as are logins, links, enrolments, rotations by nodes, acts on households, acts that ask for the password or a code, renamings of passkeys, and admin routes, and no other route', async () => {
    const document = (await one.get('/docs-json').expect(200)).body as OpenAPIObject;
    const throttled = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.values(item as Record<string, Operation>).flatMap(({ responses, security = [] }) =>
        responses[429] && !security.some((requirement) => 'admin' in requirement)
          ? [[path, Object.keys(responses[429].headers ?? {})]]
          : [],
      ),
    );
    const headers = ['X-Request-Id', 'Retry-After', 'RateLimit-Policy', 'RateLimit'];
    const links = ['password-reset', 'email-verification'].flatMap((name) => [name, `${name}/confirm`]);
    const enrolments = ['login/enrolment/totp', 'login/enrolment/totp/confirm'];
    const logins = ['login', 'login/second-factor', 'login/passkey', 'login/passkey/options', ...enrolments];
    const factors = [
      'totp',
      'totp/confirm',
      'totp/remove',
      'recovery-codes',
      'passkeys/options',
      'passkeys/{id}',
      'passkeys/{id}/remove',
    ];
    const ofHousehold = ['members/{user_id}', 'invitations/{invitation_id}', 'nodes/{node_id}'];
    const households = [
      ...['', '/{id}', '/{id}', '/{id}/invitations', '/{id}/enrolments'],
      ...['members/{user_id}', ...ofHousehold].map((path) => `/{id}/${path}`),
    ];
    const paths = [
      ...households.map((path) => `/api/v0/households${path}`),
      '/api/v0/invitations/accept',
      ...['enrol', 'me/rotate'].map((name) => `/api/v0/nodes/${name}`),
      ...['register', ...logins, 'refresh', ...links].map((name) => `/api/v0/auth/${name}`),
      ...['password', 'delete', 'email', ...factors].map((name) => `/api/v0/users/me/${name}`),
    ];
    expect(throttled.sort()).toEqual(paths.map((path) => [path, headers]).sort());
    const behindAdminDoor = Object.values(document.paths).flatMap((item) =>
      Object.values(item as Record<string, Operation>).filter(({ security = [] }) =>
        security.some((requirement) => 'admin' in requirement),
      ),
    );
    expect(behindAdminDoor.length).toBeGreaterThan(15);
    for (const { responses } of behindAdminDoor) expect(Object.keys(responses[429]?.headers ?? {})).toEqual(headers);
  });
});

describe('wrong admin keys', () => {
  const LIMIT = 5;

  const one = useApp({
    variables: { ...UNLEASED, TRUST_PROXY: '1' },
    settings: { adminKeyLimitPerAddress: { points: LIMIT, seconds: 900 } },
  });
  const two = useReplica(one);
  const { clock } = one;

  beforeEach(() => clock.enterNextWindow());

  const tryKey = (app: TestApp, address: string, key = `${ADMIN_KEY}x`) =>
    app.get('/api/v0/admin/users').set('X-Admin-Key', key).set('X-Forwarded-For', address);
  const tryKeys = (times: number, address: string) =>
    Promise.all(Array.from({ length: times }, (_, index) => tryKey(index % 2 ? one : two, address)));

  it('are 401 up to the limit of a network over all replicas, and then 429, which does not lock out the right key', async () => {
    const answers = await tryKeys(50, '192.0.2.1');
    expect(countByStatus(answers)).toEqual({ 401: LIMIT, 429: 50 - LIMIT });
    for (const answer of answers) {
      if (answer.status === 401) expectProblem(answer, problems.invalidAdminKey);
      else expect(expectThrottled(answer)).toMatchObject({ policy: 'admin-key', points: LIMIT });
    }
    expectProblem(await tryKey(one, '192.0.2.2'), problems.invalidAdminKey);
    for (const app of [one, two]) await tryKey(app, '192.0.2.1', ADMIN_KEY).expect(200);
    expectThrottled(await tryKey(one, '192.0.2.1'));
  });

  it('write one audit row for each network and window, with their number', async () => {
    const refused = { event: 'admin.key.refused', since: clock.now().toISOString() };
    await tryKeys(50, '192.0.2.3');
    await tryKey(one, '2001:db8:0:7::1').expect(401);
    const open = await recorded(one, refused);
    expect(open).toMatchObject([
      { subject: '2001:db8:0:7::/64', count: 1 },
      { subject: '192.0.2.3', address: '192.0.2.3', count: LIMIT, details: { reasons: { wrong_key: LIMIT } } },
    ]);
    clock.advance({ minutes: 17 });
    await Promise.all([one, two].map(({ nest }) => nest.get(AuditJob).maintainAuditLog()));
    expect(await recorded(two, refused)).toEqual(open);
    expect(await one.database.query("SELECT 1 FROM counted_refusals WHERE event = 'admin.key.refused'")).toEqual([]);
  });

  it('write a bounded number of log lines, none with a key', async () => {
    await Promise.all(Array.from({ length: 140 }, () => tryKey(one, '192.0.2.4')));
    const lines = one.log.lines.filter(({ address }) => address === '192.0.2.4');
    const count = (name: string) => lines.filter(({ event }) => event === name).length;
    expect([count('admin.key.refused'), count('admin.key.throttled')]).toEqual([LIMIT, 100 + 1]);
    expect(Math.max(...lines.map(({ count = 0 }) => count))).toBe(128);
    expect(JSON.stringify(one.log.lines)).not.toContain(`${ADMIN_KEY}x`);
  });
});
