// Runs each service of examples/standard-libraries with its real library before the built service: which tokens it accepts and
// refuses, how it finds a new signing key, what it answers in an outage, and how it reads the answers to an exchange. The last
// line counts.
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { ApiClient } from '../../tools/api-client.js';
import { Checks } from '../../tools/checks.js';
import { makeBuiltService } from '../../tools/built-service.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import { statusOf, type ServerProcess } from '../../tools/server-process.js';
import { makeSecrets } from '../../tools/service.js';
import { Front } from './front.js';
import { JOSE_DELEGATED, prepareLibraries, startLibrary, type Library } from './libraries.js';
import { DELEGATED_TARGET, makeTestKeys, type TestTokens } from './tokens.js';

const CLI = resolve('dist/service/platform-auth.js');
const PERSON = { email: 'alice@example.org', password: 'correct horse battery' };
const SCOPE = 'documents:read';
const SHORT_AGE_SECONDS = '2';

interface World {
  readonly cleanup: Cleanup;
  readonly postgres: PostgresServer;
  readonly service: ServerProcess;
  readonly front: Front;
  readonly client: ApiClient;
  readonly app: { readonly app_id: string; readonly app_key: string };
  readonly tokens: TestTokens;
  /** The settings of the examples. */
  readonly variables: Readonly<Record<string, string>>;
}

interface Running {
  readonly library: Library;
  readonly url: string;
}

const checks = new Checks();

async function makeWorld(cleanup: Cleanup): Promise<World> {
  const postgres = await PostgresServer.start(cleanup, 'libraries');
  const keys = await makeTestKeys();
  const front = await Front.start(cleanup, keys.shown);
  const secrets = makeSecrets();
  const issuing = { ACCESS_TOKEN_ALGORITHM: 'ES256', JWT_ISSUER: front.url };
  const service = await makeBuiltService({ cleanup, databaseUrl: postgres.url, secrets, variables: issuing });
  front.serviceUrl = service.url;
  await service.start();
  const client = new ApiClient(service.url, secrets.ADMIN_API_KEY);
  await client.register(PERSON);
  const app = await client.issueAppCredential({ caller: 'recipes', target: 'auth' });
  await client.issueAppCredential({ caller: 'recipes', target: DELEGATED_TARGET, scopes: [SCOPE], for_users: true });
  const metadata = (await (await fetch(`${front.url}/.well-known/oauth-authorization-server`)).json()) as {
    issuer: string;
    jwks_uri: string;
    introspection_endpoint: string;
  };
  const variables = {
    JWT_ISSUER: metadata.issuer,
    AUTH_JWKS_URL: metadata.jwks_uri,
    SERVICE_NAME: DELEGATED_TARGET,
    INTROSPECTION_URI: metadata.introspection_endpoint,
    AUTH_APP_ID: app.app_id,
    AUTH_APP_KEY: app.app_key,
  };
  return { cleanup, postgres, service, front, client, app, tokens: await keys.makeTokens(metadata.issuer), variables };
}

const ask = (url: string, token: string): Promise<number | undefined> =>
  statusOf(url, { headers: { Authorization: `Bearer ${token}` } });

async function expectStatus(url: string, token: string, expected: number): Promise<void> {
  const status = await ask(url, token);
  if (status !== expected) throw new Error(`${status} instead of ${expected}`);
}

/** A library looks for an unknown key once in five seconds: before that its answer may be another one. */
const expectFinally = (url: string, token: string, expected: number): Promise<void> =>
  eventually(`${url} answers ${expected}`, async () => (await ask(url, token)) === expected);

async function checkEach(
  running: readonly Running[],
  name: string,
  check: (url: string, library: Library) => Promise<void>,
): Promise<void> {
  await Promise.all(
    running.map(({ library, url }) => checks.run(`${library.name}: ${name}`, () => check(url, library))),
  );
}

async function startAll(
  { cleanup, variables }: World,
  libraries: readonly Library[],
  more: Readonly<Record<string, string>> = {},
): Promise<Running[]> {
  return Promise.all(
    libraries.map(async (library) => {
      const { url } = await startLibrary(cleanup, library, { ...variables, ...more });
      return { library, url };
    }),
  );
}

/** Started while the service is away: each has read no key yet. */
async function checkColdOutage(world: World, libraries: readonly Library[]): Promise<Running[]> {
  const { access_token: token } = await world.client.logIn(PERSON);
  world.front.outage = 'connections end';
  const running = await startAll(world, libraries);
  for (const outage of ['connections end', '503'] as const) {
    world.front.outage = outage;
    await checkEach(running, `answers 503, not 401, without keys in an outage (${outage})`, (url) =>
      expectStatus(url, token, 503),
    );
  }
  world.front.outage = undefined;
  await checkEach(running, 'accepts an access token after the outage', (url) => expectFinally(url, token, 200));
  return running;
}

async function checkTokens({ tokens, client }: World, running: readonly Running[]): Promise<void> {
  await checkEach(running, 'accepts a token of a second key of the JWKS', (url) =>
    expectFinally(url, tokens.good, 200),
  );
  for (const { name, token, lacksClaim } of tokens.wrong) {
    const judges = running.filter(({ library }) => library.isStrict || !lacksClaim);
    await checkEach(judges, `refuses a token ${name}`, (url) => expectFinally(url, token, 401));
  }
  const pair = await client.logIn(PERSON);
  await client.logOut(pair);
  await checkEach(running, 'accepts a token of a session that ended, as documented', (url) =>
    expectStatus(url, pair.access_token, 200),
  );
}

async function checkDelegated(world: World, running: readonly Running[]): Promise<void> {
  const { good, withoutScope, wrong } = world.tokens.delegated;
  const spring = running.filter(({ library }) => !library.isStrict);
  const judges = [...(await startAll(world, [JOSE_DELEGATED])), ...spring].map(({ library, url }) => ({
    library,
    url: `${url}/delegated`,
  }));
  await checkEach(judges, 'accepts a delegated token for its own name', (url) => expectFinally(url, good, 200));
  await checkEach(judges, 'answers 403 to one without the scope', (url) => expectStatus(url, withoutScope, 403));
  for (const { name, token } of wrong)
    await checkEach(judges, `refuses a delegated token ${name}`, (url) => expectFinally(url, token, 401));
}

async function askExchange(
  url: string,
  token: string,
  wish: Readonly<Record<string, string>> = {},
): Promise<{ status: number; body: { access_token?: string; scope?: string; error?: string } }> {
  const query = new URLSearchParams({ audience: DELEGATED_TARGET, scope: SCOPE, ...wish });
  const answer = await fetch(`${url}?${query}`, { headers: { Authorization: `Bearer ${token}` } });
  const text = await answer.text();
  return { status: answer.status, body: text ? (JSON.parse(text) as { access_token?: string }) : {} };
}

async function expectRefusal(answer: ReturnType<typeof askExchange>, status: number, error?: string): Promise<void> {
  const found = await answer;
  if (found.status !== status || (error !== undefined && found.body.error !== error))
    throw new Error(`${found.status} ${JSON.stringify(found.body)} instead of ${status} ${error}`);
}

/** What the clients of other hands read in the answers of POST /internal/token. */
async function checkExchanges(world: World, exchangers: readonly Running[]): Promise<void> {
  const { client, front } = world;
  const [target] = await startAll(world, [JOSE_DELEGATED]);
  const [alive, ended] = [await client.logIn(PERSON), await client.logIn(PERSON)];
  await client.logOut(ended);
  const { access_token: token } = alive;
  await checkEach(exchangers, 'finds the endpoint, and gets a token that the next service accepts', async (url) => {
    const { status, body } = await askExchange(url, token);
    if (!body.access_token) throw new Error(`${status} ${JSON.stringify(body)}`);
    await expectStatus(`${target!.url}/delegated`, body.access_token, 200);
  });
  await checkEach(exchangers, 'reads invalid_request when the session has ended', (url) =>
    expectRefusal(askExchange(url, ended.access_token), 401, 'invalid_request'),
  );
  await checkEach(exchangers, 'reads invalid_target when no pair is for users', (url) =>
    expectRefusal(askExchange(url, token, { audience: 'mail' }), 503, 'invalid_target'),
  );
  await checkEach(exchangers, 'reads invalid_scope when the pair has not the scope', (url) =>
    expectRefusal(askExchange(url, token, { scope: 'documents:write' }), 503, 'invalid_scope'),
  );
  for (const outage of ['connections end', '503'] as const) {
    front.outage = outage;
    await checkEach(exchangers, `takes an outage for no verdict on the token (${outage})`, (url) =>
      expectRefusal(askExchange(url, token), 503),
    );
  }
  front.outage = undefined;
  await checkEach(exchangers, 'gets a token after the outage', async (url) => {
    const { status } = await askExchange(url, token);
    if (status !== 200) throw new Error(`${status} instead of 200`);
  });
}

/** @returns what the command printed */
function runKeys({ postgres }: World, ...words: string[]): string {
  const env = { PATH: process.env.PATH, DATABASE_URL: postgres.url };
  return execFileSync(process.execPath, [CLI, 'keys', ...words], { env, encoding: 'utf8', stdio: 'pipe' });
}

async function rotateKeys(world: World): Promise<void> {
  // As if the next key had been shown for longer than a JWKS may be cached.
  await world.postgres.query(`UPDATE signing_keys SET created_at = created_at - interval '1 hour'`);
  runKeys(world, 'rotate');
}

async function logInWith(
  { client }: World,
  isWanted: (kid: string) => boolean,
): Promise<{ token: string; kid: string }> {
  let found = { token: '', kid: '' };
  await eventually('the service signs with another key', async () => {
    const { access_token: token } = await client.logIn(PERSON);
    const { kid } = JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()) as { kid: string };
    found = { token, kid };
    return isWanted(kid);
  });
  return found;
}

async function checkRotation(world: World, running: readonly Running[]): Promise<void> {
  const { kid: first } = await logInWith(world, () => true);
  await rotateKeys(world);
  const { kid: second, token } = await logInWith(world, (kid) => kid !== first);
  await checkEach(running, 'accepts a token of the next key at once', (url) => expectStatus(url, token, 200));
  // The service makes the key after that when it starts: no library has read it yet.
  await world.service.stop();
  await world.service.start();
  await rotateKeys(world);
  const { token: latest } = await logInWith(world, (kid) => kid !== first && kid !== second);
  await checkEach(running, 'finds a key that it has not read yet', (url) => expectFinally(url, latest, 200));
  world.front.outage = 'connections end';
  await checkEach(running, 'accepts a token in an outage while it has the keys', (url) =>
    expectStatus(url, latest, 200),
  );
  world.front.outage = undefined;
}

async function checkRevocation(world: World, libraries: readonly Library[]): Promise<void> {
  const running = await startAll(world, libraries, { KEYS_MAX_AGE_SECONDS: SHORT_AGE_SECONDS });
  const { token, kid } = await logInWith(world, () => true);
  await checkEach(running, 'accepts a token before its key is revoked', (url) => expectFinally(url, token, 200));
  runKeys(world, 'revoke', kid, '--yes');
  await checkEach(running, 'refuses a token of a revoked key when the keys are as old as they may be', (url) =>
    expectFinally(url, token, 401),
  );
}

async function checkIntrospection({ front, client }: World, url: string): Promise<void> {
  const introspected = `${url}/introspected`;
  const [alive, ended] = [await client.logIn(PERSON), await client.logIn(PERSON)];
  await client.logOut(ended);
  const says = (name: string, check: () => Promise<void>): Promise<void> =>
    checks.run(`Spring Security with introspection: ${name}`, check);
  await says('accepts an access token', () => expectFinally(introspected, alive.access_token, 200));
  await says('refuses one of a session that ended', () => expectFinally(introspected, ended.access_token, 401));
  for (const outage of ['connections end', '503'] as const) {
    front.outage = outage;
    await says(`answers 503, not 401, in an outage (${outage})`, () =>
      expectStatus(introspected, alive.access_token, 503),
    );
  }
  front.outage = undefined;
}

async function checkOwnKey({ client, app }: World, spring: readonly Running[], exchangers: readonly Running[]) {
  const { access_token: token } = await client.logIn(PERSON);
  await client.revokeAppCredential(app);
  const name = 'answers 503, not 401, when its own key is refused';
  await checkEach(spring, `with introspection: ${name}`, (url) => expectStatus(`${url}/introspected`, token, 503));
  await checkEach(exchangers, name, (url) => expectRefusal(askExchange(url, token), 503));
}

await checks.around(async (cleanup) => {
  const { verifiers, exchangers } = prepareLibraries(cleanup);
  for (const { name, obstacle } of [...verifiers, ...exchangers])
    if (obstacle !== undefined) checks.skip(name, obstacle);
  const isRunnable = ({ command }: Library): boolean => command !== undefined;
  const world = await makeWorld(cleanup);
  const running = await checkColdOutage(world, verifiers.filter(isRunnable));
  await checkTokens(world, running);
  await checkDelegated(world, running);
  const spring = running.filter(({ library }) => !library.isStrict);
  const exchanging = [
    ...(await startAll(world, exchangers.filter(isRunnable))),
    ...spring.map(({ library, url }) => ({ library, url: `${url}/exchanged` })),
  ];
  await checkExchanges(world, exchanging);
  await checkRotation(world, running);
  await checkRevocation(
    world,
    running.map(({ library }) => library).filter(({ isStrict }) => isStrict),
  );
  for (const { url } of spring) await checkIntrospection(world, url);
  await checkOwnKey(world, spring, exchanging);
});
