import { createHmac, randomUUID, sign } from 'node:crypto';
import type { Response } from 'supertest';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { SigningKeysService } from '../../../src/domain/signing-keys/signing-keys.service.js';
import { NOT_VALID, problems, type Problem } from '../../../src/foundation/problems/problems.js';
import { expectProblem } from '../../support/expect-problem.js';
import { SECRET_KEY } from '../../support/settings.js';
import type { Service, TestApp, Tokens, User } from '../../support/test-app.js';
import { useApp } from '../../support/use-app.js';
import { ES256 } from '../signing-keys/support.js';

const TYPE = 'urn:ietf:params:oauth:token-type:access_token';
const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange';
const SCOPES = ['documents:read', 'pages:count'];
type Fields = Record<string, unknown>;

/** A service of the map: its credential for this service, and its pairs for users with the next ones. */
class Caller {
  readonly name = `s-${randomUUID()}`;
  own!: Service;
  readonly pairs = new Map<string, string>();

  constructor(private readonly app: TestApp) {}

  async start(): Promise<this> {
    this.own = await this.app.service(this.name, 'auth');
    return this;
  }

  async actsForUsersAt(target: Caller, scopes = SCOPES, more: Fields = {}): Promise<string> {
    const pair = { caller: this.name, target: target.name, scopes, for_users: true, ...more };
    const { body } = await this.app.admin.post('/app-credentials', pair).expect(201);
    this.pairs.set(target.name, body.app_id as string);
    return body.app_id as string;
  }

  ask(subject: string, audience: string, more: Record<string, string> = {}) {
    const form = { grant_type: GRANT, subject_token: subject, subject_token_type: TYPE, audience, ...more };
    return this.app.post('/internal/token').set(this.own.headers).type('form').send(form);
  }

  async exchanges(subject: string, target: Caller, more: Record<string, string> = {}): Promise<string> {
    const { body } = await this.ask(subject, target.name, more).expect(200);
    return body.access_token as string;
  }

  /** Presents a token that another service sent. */
  presents(token: string, more: Record<string, string> = {}) {
    const headers = { ...this.own.headers, 'X-Platform-Target': this.name, Authorization: `Bearer ${token}` };
    return this.app.post('/internal/validate-user').set({ ...headers, ...more });
  }
}

function expectOAuthError(
  { status, body, headers }: { status: number; body: unknown; headers: unknown },
  error: string,
  { code }: Problem,
): void {
  expect({ status, body }).toEqual({
    status: error === 'invalid_client' ? 401 : 400,
    body: { error, code, error_description: expect.any(String) as string, request_id: expect.any(String) as string },
  });
  expect(headers).toMatchObject({ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' });
}

const expectRefused = (response: Response): void =>
  expectProblem(response, { ...problems.invalidAccessToken, extension: NOT_VALID });

describe('validate-user with a delegated token and Cache-Control: no-cache', () => {
  const app = useApp({ variables: { ...ES256, REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('reads the signing key from PostgreSQL, so that a verifier does not remember a token of a revoked one', async () => {
    const [first, second] = [await new Caller(app).start(), await new Caller(app).start()];
    await first.actsForUsersAt(second);
    const { access_token } = await (await app.user()).logsIn();
    const token = await first.exchanges(access_token, second);
    const noCache = { 'Cache-Control': 'no-cache' };
    const { headers } = await second.presents(token, noCache).expect(200);
    expect(headers['x-platform-remember']).toBe('yes');
    // As a replica sees it that has not heard of the revocation yet.
    await app.database.query(`ALTER TABLE signing_keys DISABLE TRIGGER USER;
      UPDATE signing_keys SET state = 'revoked', revoked_at = now() WHERE kid = '${decodeProtectedHeader(token).kid}'`);
    await second.presents(token).expect(200);
    expectRefused(await second.presents(token, noCache));
  });
});

describe('tokens for users at the next service (RFC 8693)', () => {
  const app = useApp({ variables: ES256 });
  let [web, recipes, ocr, tts, mail]: Caller[] = [];
  let user: User;
  let tokens: Tokens;

  const callers = () => [web!, recipes!, ocr!, tts!, mail!] as const;

  beforeEach(async () => {
    [web, recipes, ocr, tts, mail] = await Promise.all(Array.from({ length: 5 }, () => new Caller(app).start()));
    const [first, second, third, fourth, fifth] = callers();
    await first.actsForUsersAt(second);
    await second.actsForUsersAt(third);
    await third.actsForUsersAt(fourth);
    await fourth.actsForUsersAt(fifth);
    user = await app.user();
    tokens = await user.logsIn();
  });

  describe('POST /internal/token', () => {
    it('answers as OAuth demands, with a token of at most 5 minutes for the audience alone', async () => {
      const [first, second] = callers();
      const { body, headers } = await first.ask(tokens.access_token, second.name).expect(200);
      expect(body).toEqual({
        access_token: expect.any(String) as string,
        issued_token_type: TYPE,
        token_type: 'Bearer',
        expires_in: 300,
        scope: SCOPES.join(' '),
      });
      expect(headers['cache-control']).toBe('no-store');
      const { access_token: token } = body as { access_token: string };
      expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' });
      const claims = decodeJwt(token);
      const pair = first.pairs.get(second.name);
      expect(claims).toEqual({
        iss: 'platform-auth/delegated',
        sub: user.id,
        sid: decodeJwt(tokens.access_token).sid,
        aud: second.name,
        client_id: pair,
        act: { sub: first.name, client_id: pair },
        revisions: [0],
        scope: SCOPES.join(' '),
        jti: expect.any(String) as string,
        iat: expect.any(Number) as number,
        exp: claims.iat! + 300,
      });
    });

    it('takes the credential as HTTP Basic', async () => {
      const [first, second] = callers();
      const form = { grant_type: GRANT, subject_token: tokens.access_token, subject_token_type: TYPE };
      const call = app.post('/internal/token').auth(first.own.appId, first.own.appKey).type('form');
      await call.send({ ...form, audience: second.name }).expect(200);
    });

    it('answers concurrent calls each by its own pair', async () => {
      const [first, second, third, fourth] = callers();
      const calls = [
        [first, second],
        [third, fourth],
        [first, second],
        [first, fourth],
      ] as const;
      const answers = await Promise.all(calls.map(([caller, target]) => caller.ask(tokens.access_token, target.name)));
      const pairs = answers.slice(0, 3).map(({ body }) => decodeJwt((body as Fields).access_token as string).client_id);
      expect(pairs).toEqual(calls.slice(0, 3).map(([caller, target]) => caller.pairs.get(target.name)));
      expectOAuthError(answers[3]!, 'invalid_target', problems.invalidTarget);
    });

    it('never lives longer than the subject token, also of a delegated one', async () => {
      const [first, second, third] = callers();
      const { exp } = decodeJwt(tokens.access_token);
      app.clock.advance({ minutes: 13 });
      const token = await first.exchanges(tokens.access_token, second);
      expect(decodeJwt(token).exp).toBe(exp);
      app.clock.advance({ seconds: 30 });
      expect(decodeJwt(await second.exchanges(token, third)).exp).toBe(exp);
    });

    it('grants the scopes that were asked for, and no other than the pair has', async () => {
      const [first, second] = callers();
      const token = await first.exchanges(tokens.access_token, second, { scope: 'pages:count' });
      expect(decodeJwt(token).scope).toBe('pages:count');
      const refused = await first.ask(tokens.access_token, second.name, { scope: 'pages:count users:delete' });
      expectOAuthError(refused, 'invalid_scope', problems.invalidScope);
    });

    it('refuses a target whose pair is missing, not for users, revoked or expired, and this service itself', async () => {
      const [first, second, third] = callers();
      const expectRefused = async (audience: string) =>
        expectOAuthError(await first.ask(tokens.access_token, audience), 'invalid_target', problems.invalidTarget);
      await expectRefused(third.name);
      await expectRefused('auth');
      await app.service(first.name, third.name, SCOPES);
      await expectRefused(third.name);
      await app.admin.delete(`/app-credentials/${first.pairs.get(second.name)}`).expect(204);
      await expectRefused(second.name);
      const expires_at = new Date(app.clock.now().getTime() + 60_000).toISOString();
      await first.actsForUsersAt(second, SCOPES, { expires_at });
      await first.exchanges(tokens.access_token, second);
      app.clock.advance({ seconds: 61 });
      await expectRefused(second.name);
    });

    it('refuses an ended subject token with invalid_subject_token', async () => {
      const [first, second, third] = callers();
      const expectEnded = async (caller: Caller, subject: string) =>
        expectOAuthError(
          await caller.ask(subject, caller === first ? second.name : third.name),
          'invalid_request',
          problems.invalidSubjectToken,
        );
      const token = await first.exchanges(tokens.access_token, second);
      await expectEnded(first, 'x');
      // It is for the second service, and only that one may exchange it.
      await expectEnded(first, token);
      await app.logout(tokens.refresh_token).expect(204);
      await expectEnded(first, tokens.access_token);
      await expectEnded(second, token);
    });

    it.each([
      ['another grant', { grant_type: 'client_credentials' }, 'unsupported_grant_type', problems.unsupportedGrantType],
      ['a resource', { resource: 'https://ocr' }, 'invalid_request', problems.validationFailed],
      ['an actor token', { actor_token: 'x' }, 'invalid_request', problems.validationFailed],
      ['another requested type', { requested_token_type: 'x' }, 'invalid_request', problems.validationFailed],
      ['another subject type', { subject_token_type: 'x' }, 'invalid_request', problems.validationFailed],
      ['no subject token', { subject_token: '' }, 'invalid_request', problems.validationFailed],
    ])('refuses %s', async (_name, change, error, problem) => {
      const [first, second] = callers();
      expectOAuthError(await first.ask(tokens.access_token, second.name, change), error, problem);
    });

    it('takes fields without a value as left out (RFC 6749 §3.2)', async () => {
      const [first, second] = callers();
      const empty = { resource: '', actor_token: '', actor_token_type: '', requested_token_type: '', scope: '' };
      await first.exchanges(tokens.access_token, second, empty);
    });

    it('refuses a second audience', async () => {
      const [first, second, third] = callers();
      const form = new URLSearchParams({ grant_type: GRANT, subject_token: 'x', subject_token_type: TYPE });
      for (const name of [second.name, third.name]) form.append('audience', name);
      const call = app.post('/internal/token').set(first.own.headers).type('form');
      expectOAuthError(await call.send(form.toString()), 'invalid_request', problems.validationFailed);
    });

    it('refuses a wrong credential with invalid_client', async () => {
      const [first] = callers();
      const wrong = { ...first.own.headers, 'X-Platform-App-Key': 'wrong' };
      const answer = await app.post('/internal/token').set(wrong).type('form').send({ grant_type: GRANT });
      expect(answer.headers['www-authenticate']).toContain('PlatformApp');
      expect(answer.body).toMatchObject({ error: 'invalid_client', code: 'invalid_app_credentials' });
    });

    it('grows the chain by one link, to four, and refuses a fifth', async () => {
      const [first, second, third, fourth, fifth] = callers();
      let token = await first.exchanges(tokens.access_token, second);
      token = await second.exchanges(token, third);
      token = await third.exchanges(token, fourth);
      token = await fourth.exchanges(token, fifth);
      const { body } = await fifth.presents(token).expect(200);
      const names = [];
      for (let act = (body as { act?: Fields }).act; act; act = act.act as Fields | undefined) names.push(act.sub);
      expect(names).toEqual([fourth.name, third.name, second.name, first.name]);
      await fifth.actsForUsersAt(first);
      expectOAuthError(await fifth.ask(token, first.name), 'invalid_request', problems.validationFailed);
    });

    it('records the first use of a pair in the audit log, and counts refusals', async () => {
      const [first, second] = callers();
      await first.exchanges(tokens.access_token, second);
      await first.exchanges(tokens.access_token, second);
      const { body } = await app.admin.get('/audit-events?event=token.exchange.first_used').expect(200);
      const mine = (body as { items: Fields[] }).items.filter(
        ({ subject }) => subject === first.pairs.get(second.name),
      );
      expect(mine).toHaveLength(1);
      expect(mine[0]).toMatchObject({ actor: { door: 'app', id: first.own.appId } });
    });
  });

  describe('POST /internal/validate-user', () => {
    it('names the caller, its scopes and the chain, and neither the address nor the households', async () => {
      const [first, second, third] = callers();
      const token = await second.exchanges(await first.exchanges(tokens.access_token, second), third);
      const { body } = await third.presents(token).expect(200);
      expect(body).toEqual({
        valid: true,
        user_id: user.id,
        session_id: decodeJwt(tokens.access_token).sid,
        expires_at: new Date(decodeJwt(token).exp! * 1_000).toISOString(),
        amr: ['pwd'],
        caller: second.name,
        scopes: SCOPES,
        act: decodeJwt(token).act,
      });
    });

    it('accepts it only from its audience, which names itself and presents its own credential', async () => {
      const [first, second, third] = callers();
      const token = await first.exchanges(tokens.access_token, second);
      await second.presents(token).expect(200);
      expectRefused(await first.presents(token));
      expectRefused(await third.presents(token));
      expectRefused(await third.presents(token, { 'X-Platform-Target': second.name }));
      const alone = app.post('/internal/validate-user').set('Authorization', `Bearer ${token}`);
      expectRefused(await alone.set('X-Platform-Target', second.name));
      const unnamed = app
        .post('/internal/validate-user')
        .set({ ...second.own.headers, Authorization: `Bearer ${token}` });
      expectRefused(await unnamed);
    });

    it('is refused at the doors of this service and by gateways', async () => {
      const [first, second] = callers();
      const token = await first.exchanges(tokens.access_token, second);
      expectProblem(await app.me(token), problems.invalidAccessToken);
      await app.get('/internal/authorize/user').set('Authorization', `Bearer ${token}`).expect(401);
    });

    it('still refuses a target beside the user’s own token', async () => {
      const [first] = callers();
      expectProblem(await first.presents(tokens.access_token), problems.validationFailed);
      await first.presents(tokens.access_token, { 'X-Platform-Target': 'auth' }).expect(200);
    });

    const ENDS: [string, (act: { first: Caller; second: Caller; third: Caller }) => Promise<unknown>][] = [
      ['a logout', () => app.logout(tokens.refresh_token).expect(204)],
      ['a disabled user', () => app.admin.patch(`/users/${user.id}`, { is_active: false }).expect(200)],
      [
        'the revocation of the first pair',
        ({ first, second }) => app.admin.delete(`/app-credentials/${first.pairs.get(second.name)}`).expect(204),
      ],
      [
        'the revocation of the last pair',
        ({ second, third }) => app.admin.delete(`/app-credentials/${second.pairs.get(third.name)}`).expect(204),
      ],
      [
        'a first pair that is no longer for users',
        ({ first, second }) =>
          app.admin.patch(`/app-credentials/${first.pairs.get(second.name)}`, { for_users: false }).expect(200),
      ],
      [
        'a first pair that was not for users for a moment',
        async ({ first, second }) => {
          const path = `/app-credentials/${first.pairs.get(second.name)}`;
          await app.admin.patch(path, { for_users: false }).expect(200);
          await app.admin.patch(path, { for_users: true }).expect(200);
          // The pair allows new tokens.
          await second.presents(await first.exchanges(tokens.access_token, second)).expect(200);
        },
      ],
      [
        'a first pair that was deleted and made again',
        async ({ first, second }) => {
          await app.admin.delete(`/app-credentials/${first.pairs.get(second.name)}`).expect(204);
          await first.actsForUsersAt(second);
        },
      ],
    ];
    it.each(ENDS)('refuses it after %s', async (_name, end) => {
      const [first, second, third] = callers();
      const token = await second.exchanges(await first.exchanges(tokens.access_token, second), third);
      await third.presents(token).expect(200);
      await end({ first, second, third });
      expectRefused(await third.presents(token));
    });

    it('ends with the first expiry of any pair of its chain', async () => {
      const [first, second, third] = callers();
      await app.admin.delete(`/app-credentials/${first.pairs.get(second.name)}`).expect(204);
      const expires_at = new Date(app.clock.now().getTime() + 60_000).toISOString();
      await first.actsForUsersAt(second, SCOPES, { expires_at });
      const token = await second.exchanges(await first.exchanges(tokens.access_token, second), third);
      expect((await third.presents(token).expect(200)).body).toMatchObject({
        expires_at: new Date(decodeJwt(token).exp! * 1_000).toISOString(),
      });
      app.clock.advance({ seconds: 61 });
      expectRefused(await third.presents(token));
    });

    it('answers the signed scopes that the last pair still has', async () => {
      const [first, second] = callers();
      const token = await first.exchanges(tokens.access_token, second);
      const path = `/app-credentials/${first.pairs.get(second.name)}`;
      await app.admin.patch(path, { scopes: ['pages:count', 'pages:delete'] }).expect(200);
      expect((await second.presents(token).expect(200)).body).toMatchObject({ scopes: ['pages:count'] });
    });
  });

  describe('POST /internal/introspect', () => {
    it('answers to the audience only, without the address', async () => {
      const [first, second, third] = callers();
      const token = await first.exchanges(tokens.access_token, second);
      const ask = (caller: Caller) =>
        app.post('/internal/introspect').set(caller.own.headers).type('form').send({ token });
      const { body } = await ask(second).expect(200);
      const { aud, client_id, act, scope, iss, sub } = decodeJwt(token);
      expect(body).toMatchObject({ active: true, aud, client_id, act, scope, iss, sub });
      expect(JSON.stringify(body)).not.toContain(user.email);
      expect(body).not.toHaveProperty('households');
      for (const other of [first, third]) expect((await ask(other).expect(200)).body).toEqual({ active: false });
    });
  });

  describe('forgeries', () => {
    /** Signs what this service would never sign, with its own key. */
    const forge = async (claims: object, header: object = {}): Promise<string> => {
      const { privateKey, kid } = await app.nest.get(SigningKeysService, { strict: false }).findActiveKey();
      const parts = [{ alg: 'ES256', typ: 'at+jwt', kid, ...header }, claims];
      const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
      const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' });
      return `${input}.${signature.toString('base64url')}`;
    };
    /** A token with two links for the third service, and its claims. */
    const makeToken = async () => {
      const [first, second, third] = callers();
      const token = await second.exchanges(await first.exchanges(tokens.access_token, second), third);
      const claims = decodeJwt(token) as Fields & { act: Fields & { act: Fields } };
      return { token, claims, third };
    };

    it('accepts what it forges when nothing is wrong with it', async () => {
      const { claims, third } = await makeToken();
      await third.presents(await forge(claims)).expect(200);
    });

    const FORGERIES: [string, (claims: Fields & { act: Fields & { act: Fields } }) => Fields][] = [
      [
        'another hop’s link',
        (claims) => ({ ...claims, act: claims.act.act, client_id: claims.act.act.client_id, revisions: [0] }),
      ],
      ['another revision of a pair', (claims) => ({ ...claims, revisions: [0, 1] })],
      ['no revisions', (claims) => ({ ...claims, revisions: undefined })],
      ['revisions that are null', (claims) => ({ ...claims, revisions: null })],
      ['no act', (claims) => ({ ...claims, act: undefined })],
      ['an act that is null', (claims) => ({ ...claims, act: null })],
      [
        'a chain in another order',
        ({ act, ...claims }) => {
          const { act: earlier, ...last } = act;
          return { ...claims, client_id: earlier.client_id, act: { ...earlier, act: last } };
        },
      ],
      ['a list as audience', (claims) => ({ ...claims, aud: [claims.aud] })],
      ['the issuer of users’ tokens', (claims) => ({ ...claims, iss: 'platform-auth' })],
      ['another client', (claims) => ({ ...claims, client_id: claims.act.act.client_id })],
      ['a life of an hour', (claims) => ({ ...claims, exp: Number(claims.iat) + 3_600 })],
      [
        'a chain of five',
        (claims) => {
          const lengthen = (act: Fields, links: number): Fields =>
            links === 0 ? act : { ...act, act: lengthen(act, links - 1) };
          return { ...claims, act: lengthen(claims.act.act, 4), revisions: [0, 0, 0, 0, 0] };
        },
      ],
    ];
    it.each(FORGERIES)('refuses %s', async (_name, change) => {
      const { claims, third } = await makeToken();
      expectRefused(await third.presents(await forge(change(claims))));
    });

    it('refuses the type of users’ tokens, HS256, and claims behind another signature', async () => {
      const { token, claims, third } = await makeToken();
      // A user's own token is for this service, so only this target may stand beside it.
      expectRefused(await third.presents(await forge(claims, { typ: 'JWT' }), { 'X-Platform-Target': 'auth' }));
      expectProblem(await app.me(await forge({ ...claims, iss: 'platform-auth' })), problems.invalidAccessToken);
      const parts = [{ alg: 'HS256', typ: 'at+jwt' }, claims];
      const input = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
      const hs256 = `${input}.${createHmac('sha256', SECRET_KEY).update(input).digest('base64url')}`;
      expectRefused(await third.presents(hs256));
      const [header, , signature] = token.split('.');
      const longer = Buffer.from(JSON.stringify({ ...claims, exp: Number(claims.exp) + 60 })).toString('base64url');
      expectRefused(await third.presents([header, longer, signature].join('.')));
    });
  });

  describe('pairs for users', () => {
    it('name their scopes', async () => {
      const pair = { caller: `s-${randomUUID()}`, target: 'ocr', for_users: true };
      expectProblem(await app.admin.post('/app-credentials', pair), problems.validationFailed);
      expectProblem(
        await app.admin.post('/app-credentials', { ...pair, target: 'auth', scopes: SCOPES }),
        problems.validationFailed,
      );
      const { body } = await app.admin.post('/app-credentials', { ...pair, scopes: SCOPES }).expect(201);
      expect(body).toMatchObject({ for_users: true, for_users_used_at: null });
      const path = `/app-credentials/${body.app_id as string}`;
      expectProblem(await app.admin.patch(path, { scopes: null }), problems.validationFailed);
      await app.admin.patch(path, { scopes: null, for_users: false }).expect(200);
      expectProblem(await app.admin.patch(path, { for_users: true }), problems.validationFailed);
    });

    it('do not change when they are used', async () => {
      const [first, second] = callers();
      const countChanges = async () =>
        (await app.database.query<{ n: number }>('SELECT count(*)::int AS n FROM credential_changes'))[0]!.n;
      const before = await countChanges();
      await first.exchanges(tokens.access_token, second);
      const { body } = await app.admin.get(`/app-credentials/${first.pairs.get(second.name)}`).expect(200);
      expect(body.for_users_used_at).toEqual(expect.any(String));
      expect(await countChanges()).toBe(before);
    });

    it.each(['https://auth.example.org/', 'https://auth.example.org/delegated'])(
      'stop the start while JWT_ISSUER is %s',
      async (JWT_ISSUER) => {
        await expect(app.startReplica({ variables: { ...ES256, JWT_ISSUER } })).rejects.toThrow(/JWT_ISSUER/);
      },
    );
  });
});

describe('under HS256', () => {
  const app = useApp();

  it('supports no exchange, because every service that verifies tokens could sign any chain', async () => {
    const caller = await new Caller(app).start();
    const { access_token } = await (await app.user()).logsIn();
    expectOAuthError(await caller.ask(access_token, 'ocr'), 'unsupported_grant_type', problems.unsupportedGrantType);
  });
});
