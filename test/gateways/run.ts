// The configurations of deploy/gateways/ with the real nginx, Caddy and HAProxy, which Debian ships, before the built
// service and an upstream that answers what it received. The last line counts what was checked.
import { createHash, randomBytes } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { freePort } from '../../src/embedded-postgres/free-port.js';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { PostgresServer } from '../../tools/postgres-server.js';
import { isHealthy, ServerProcess } from '../../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_SCRIPT } from '../../tools/service.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { StandIn } from '../guards/stand-in.js';
import { DOORS, forgeIdentity, makeCredentials, writeUnusually, type Credentials } from './credentials.js';
import { startCaddy, startHaproxy, startNginx, type Gateway } from './gateways.js';
import { Echo, parseReceived, send, sendRaw, type Answer, type Received } from './http.js';
import { FAILURE_CASES } from './stand-ins.js';

const LARGE_BODY_BYTES = 20_000_000;
const REFUSALS: readonly (number | undefined)[] = [400, 401, 431];
const CREDENTIAL_NAMES = ['x-api-key', 'authorization', 'x-platform-app-id', 'x-platform-app-key', 'x-platform-target'];
const checks = new Checks();

interface World {
  readonly service: ServerProcess;
  readonly postgres: PostgresServer;
  /** Between the gateways and the service. */
  readonly network: TcpProxy;
  readonly upstream: Echo;
  readonly credentials: Credentials;
}

function expectEqual(found: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(found, expected))
    throw new Error(`found ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

/** What the upstream takes for the identity: frameworks read underscores as hyphens. */
function identityOf({ headers }: Received): Record<string, string> {
  const found = headers.filter(([name]) => /^x[-_]auth[-_]/.test(name));
  const identity = Object.fromEntries(found.sort(([a], [b]) => a.localeCompare(b)));
  if (Object.keys(identity).length !== found.length) throw new Error(`repeated: ${JSON.stringify(found)}`);
  return identity;
}

function expectIdentity(answer: Answer, expected: Readonly<Record<string, string>>): Received {
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.body}`);
  const received = parseReceived(answer);
  expectEqual(identityOf(received), expected);
  return received;
}

function expectRefusal({ status, headers, body }: Answer, code: string, challenge: string): void {
  const problem = JSON.parse(body) as { code?: string; status?: number; type?: string };
  const type = `/problems/${code.replaceAll('_', '-')}`;
  expectEqual({ status, code: problem.code, type: problem.type }, { status: 401, code, type });
  if (!headers['www-authenticate']?.includes(challenge)) throw new Error('no challenge');
  if (!headers['content-type']?.includes('application/problem+json')) throw new Error('not a problem document');
}

function expectUnavailable({ status, headers, body }: Answer): void {
  if (status !== 503) throw new Error(`${status} ${body}`);
  if (headers['retry-after'] === undefined) throw new Error('no Retry-After');
  if (!headers['content-type']?.includes('application/problem+json')) throw new Error('not a problem document');
}

async function checkVerdicts({ name, port }: Gateway, { credentials }: World): Promise<void> {
  for (const door of DOORS) {
    const { good, bad, identity, code, challenge } = credentials[door];
    await checks.run(
      `${name}, ${door}: passes a valid credential's identity on, and the request as it came`,
      async () => {
        const path = `/${door}/a%20b/%C3%A4?q=1&q=${encodeURIComponent('/../x?y')}`;
        const headers = [...good, ['X-Custom', 'kept'], ['Cookie', 'a=b']] as const;
        const received = expectIdentity(await send(port, { method: 'PUT', path, headers }), identity);
        const custom = received.headers.filter(([header]) => ['x-custom', 'cookie'].includes(header));
        expectEqual(
          { ...received, headers: custom.sort() },
          {
            ...received,
            method: 'PUT',
            url: path,
            headers: [
              ['cookie', 'a=b'],
              ['x-custom', 'kept'],
            ],
          },
        );
        const left = received.headers.filter(([header]) => CREDENTIAL_NAMES.includes(header));
        expectEqual(left, []);
      },
    );
    await checks.run(
      `${name}, ${door}: refuses an invalid credential with the service's code and challenge`,
      async () => expectRefusal(await send(port, { path: `/${door}/x?y=1`, headers: bad }), code, challenge),
    );
    await checks.run(`${name}, ${door}: refuses a request without a credential`, async () =>
      expectRefusal(
        await send(port, { path: `/${door}/x` }),
        door === 'user' ? 'missing_access_token' : code,
        challenge,
      ),
    );
    await checks.run(`${name}, ${door}: refuses a doubled credential`, async () => {
      const answer = await send(port, { path: `/${door}/x`, headers: [...good, ...good] });
      // nginx refuses a repeated Authorization itself.
      if (name === 'nginx' && door === 'user') expectEqual(answer.status, 400);
      else expectRefusal(answer, code, challenge);
    });
    await checks.run(`${name}, ${door}: removes every forged identity header`, async () => {
      const headers = [...forgeIdentity(), ...good];
      expectIdentity(await send(port, { path: `/${door}/x`, headers }), identity);
    });
    await checks.run(`${name}, ${door}: keeps the identity when Connection names its headers`, async () => {
      const names = ['x-auth-door', ...Object.keys(identity), 'X-Platform-Target'].join(', ');
      const received = expectIdentity(
        await send(port, { path: `/${door}/x`, headers: [['Connection', names], ...good] }),
        identity,
      );
      const named = received.headers.filter(([header, value]) => header === 'connection' && /x-/i.test(value));
      expectEqual(named, []);
    });
  }
  await checks.run(`${name}, app: overwrites a client's own X-Platform-Target`, async () => {
    const { good, identity } = credentials.app;
    const forged = ['X-Platform-Target', 'x-platform-target', 'X_Platform_Target'].map(
      (header) => [header, 'speech'] as const,
    );
    const received = expectIdentity(await send(port, { path: '/app/x', headers: [...forged, ...good] }), identity);
    expectEqual(
      received.headers.filter(([header]) => /target/.test(header)),
      [],
    );
  });
  await checks.run(`${name}: passes the upstream's own 401, 403, 500 and 503 on`, async () => {
    for (const status of [401, 403, 500, 503]) {
      const answer = await send(port, { path: `/node/x?status=${status}`, headers: credentials.node.good });
      expectEqual([answer.status, parseReceived(answer).url], [status, `/node/x?status=${status}`]);
    }
  });
}

async function checkOpenPaths({ name, port }: Gateway): Promise<void> {
  await checks.run(`${name}: removes forged identity headers on an open path`, async () => {
    expectIdentity(await send(port, { path: '/open/x?y', headers: forgeIdentity() }), {});
  });
  await checks.run(`${name}: lets no path through that the upstream could resolve to a guarded one`, async () => {
    const tails = [
      '/../',
      '/..%2f',
      '/%2e%2e/',
      '/%2E%2E%2F',
      '/.%2e/',
      '//../',
      '/./../',
      '\\..\\',
      '/%5c..%5c',
      '/x/../../',
    ];
    const paths = [...tails.map((tail) => `/open${tail}user/x`), '//user/x', '/./user/x', '/open/../open/../user/x'];
    for (const path of paths) {
      const status = await sendRaw(port, [`GET ${path} HTTP/1.1`, 'Host: a']);
      if (status === 200 || status === undefined) throw new Error(`${path} answered ${status}`);
    }
  });
}

async function checkBodies({ name, port }: Gateway, { credentials }: World): Promise<void> {
  const bodies = {
    form: ['application/x-www-form-urlencoded', Buffer.from('a=1&target=speech&b=%zz')],
    '20 MB': ['application/octet-stream', randomBytes(LARGE_BODY_BYTES)],
  } as const;
  for (const [kind, [type, body]] of Object.entries(bodies)) {
    await checks.run(`${name}: passes a ${kind} body on unchanged`, async () => {
      for (const door of DOORS) {
        const { good, identity } = credentials[door];
        const headers = [['Content-Type', type], ...good] as const;
        const received = expectIdentity(
          await send(port, { method: 'POST', path: `/${door}/x`, headers, body }),
          identity,
        );
        expectEqual(received.sha256, createHash('sha256').update(body).digest('hex'));
      }
    });
  }
  await checks.run(`${name}: passes a chunked body on unchanged`, async () => {
    const { good } = credentials.node;
    const lines = good.map(([header, value]) => `${header}: ${value}`);
    const chunked = ['Transfer-Encoding: chunked', 'Connection: close', '', '5', 'hello', '0', ''];
    expectEqual(await sendRaw(port, ['POST /node/x HTTP/1.1', 'Host: a', ...lines, ...chunked]), 200);
  });
}

/** What the gateway asks, seen by a server in the place of platform-auth. */
async function checkQuestion(
  { name, port }: Gateway,
  { network, service, credentials, upstream }: World,
  cleanup: Cleanup,
): Promise<void> {
  await checks.run(`${name}: asks without body, cookies and query, and as its own service`, async () => {
    for (const door of DOORS) {
      const auth = await Echo.start(cleanup, credentials[door].identity);
      network.lead(`http://127.0.0.1:${auth.port}`);
      const headers = [
        ['Cookie', 'a=b'],
        ['X-Platform-Target', 'speech'],
        ['Content-Type', 'text/plain'],
      ] as const;
      const body = Buffer.alloc(100_000, 'x');
      upstream.seen.length = 0;
      await eventually('the gateway asks the stand-in', async () => {
        await send(port, {
          method: 'POST',
          path: `/${door}/x?secret=1`,
          headers: [...headers, ...credentials[door].good],
          body,
        });
        return upstream.seen.length > 0;
      });
      const question = auth.seen.find(({ url }) => url.startsWith('/internal/authorize/'));
      const sent = Object.fromEntries(question?.headers ?? []);
      const target = door === 'app' ? { 'x-platform-target': sent['x-platform-target'] } : {};
      const { cookie, 'content-type': type, 'content-length': length = '0', 'transfer-encoding': encoding } = sent;
      expectEqual(
        { url: question?.url, body: question?.length, cookie, type, length, encoding, ...target },
        {
          url: `/internal/authorize/${door}`,
          body: 0,
          cookie: undefined,
          type: undefined,
          length: '0',
          encoding: undefined,
          ...(door === 'app' && { 'x-platform-target': 'recipes' }),
        },
      );
    }
  });
  network.lead(service.url);
}

/** A credential in an unusual form is accepted only if the service accepts that form too. */
async function checkUnusualForms({ name, port }: Gateway, { service, credentials }: World): Promise<void> {
  for (const door of DOORS) {
    const [first, ...others] = credentials[door].good;
    if (!first) throw new Error('A credential has a header');
    const own = door === 'app' ? ['X-Platform-Target: recipes'] : [];
    const rest = others.map(([header, value]) => `${header}: ${value}`);
    await checks.run(`${name}, ${door}: judges unusual forms as the service does, or refuses them`, async () => {
      const odd: string[] = [];
      const forms = Object.entries(writeUnusually(first));
      if (door === 'user') forms.push(...listBearerForms(first[1]));
      for (const [form, lines] of forms) {
        const ask = (to: number, path: string, more: readonly string[]): Promise<number | undefined> =>
          sendRaw(to, [`GET ${path} HTTP/1.1`, 'Host: a', ...more, ...rest]);
        // A proxy may unfold a folded line (RFC 9112 §5.2), which the service refuses.
        const unfolded = lines.join('\r\n').replaceAll(/\r\n +/g, ' ');
        const verdict = await ask(service.port, `/internal/authorize/${door}`, [unfolded, ...own]);
        const found = await ask(port, `/${door}/x`, lines);
        const isRight = found === 200 ? verdict === 200 : REFUSALS.includes(found);
        if (!isRight) odd.push(`${form}: ${found}, the service: ${verdict}`);
      }
      if (odd.length > 0) throw new Error(odd.join('\n'));
    });
  }
}

function listBearerForms(good: string): [string, string[]][] {
  const token = good.replace('Bearer ', '');
  return ['bearer ', 'BEARER ', 'Bearer  ', 'Bearer\t', 'Basic ', ''].map((scheme) => [
    `the scheme "${scheme}"`,
    [`Authorization: ${scheme}${token}`],
  ]);
}

async function expectRecovery({ port }: Gateway, { credentials }: World): Promise<void> {
  await eventually('valid credentials pass again', async () => {
    const answers = await Promise.all(
      DOORS.map((door) => send(port, { path: `/${door}/x`, headers: credentials[door].good })),
    );
    return answers.every(({ status }) => status === 200);
  });
}

async function checkOutages(gateway: Gateway, world: World): Promise<void> {
  const { name, port } = gateway;
  const { network, postgres, credentials, upstream, service } = world;
  const expectOutage = async (): Promise<void> => {
    upstream.seen.length = 0;
    for (const door of DOORS) {
      const { good, bad } = credentials[door];
      for (const headers of [good, bad]) expectUnavailable(await send(port, { path: `/${door}/x?y`, headers }));
    }
    expectEqual(upstream.seen.length, 0);
  };
  await checks.run(`${name}: answers 503 while the service is stopped, and recovers`, async () => {
    await network.close();
    await expectOutage().finally(() => network.open());
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the service hangs, and recovers`, async () => {
    network.blackHole(true);
    await expectOutage().finally(() => network.blackHole(false));
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the database of the service is away, and recovers`, async () => {
    await postgres.stop('immediate');
    await expectOutage().finally(() => postgres.startAgain());
    await eventually('the service is healthy', () => isHealthy(service.url));
    await expectRecovery(gateway, world);
  });
}

async function checkFailures(gateway: Gateway, world: World): Promise<void> {
  const { network, service, credentials, upstream } = world;
  const standIn = await StandIn.start();
  network.lead(standIn.url);
  for (const { name, answers, isBeyond = [] } of FAILURE_CASES) {
    if (isBeyond.includes(gateway.name)) continue;
    await checks.run(`${gateway.name}: answers 503 when the service ${name}`, async () => {
      standIn.answerWith(...answers);
      upstream.seen.length = 0;
      for (const door of DOORS)
        expectUnavailable(await send(gateway.port, { path: `/${door}/x`, headers: credentials[door].good }));
      expectEqual(upstream.seen.length, 0);
    });
  }
  network.lead(service.url);
  standIn.stop();
  await expectRecovery(gateway, world);
}

async function makeWorld(cleanup: Cleanup): Promise<World> {
  const postgres = await PostgresServer.start(cleanup, 'gateways');
  const secrets = makeSecrets();
  const service = new ServerProcess(await freePort(), {
    cleanup,
    script: SERVICE_SCRIPT,
    // Without a lease, each verdict is read from the database: an outage of it is one at once.
    variables: {
      ...productionVariables(postgres.url, secrets),
      BCRYPT_COST: '4',
      LOG_LEVEL: 'warn',
      REVOCATION_LEASE_MS: '0',
    },
    isReady: isHealthy,
    onLine: () => undefined,
  });
  await service.start();
  const network = await TcpProxy.before(service.url);
  cleanup.defer(() => network.close());
  const credentials = await makeCredentials(service.url, secrets.ADMIN_API_KEY);
  return { service, postgres, network, upstream: await Echo.start(cleanup), credentials };
}

async function checkAll(cleanup: Cleanup): Promise<void> {
  const world = await makeWorld(cleanup);
  const setting = {
    cleanup,
    folder: makeTemporaryFolder(cleanup, 'gateways'),
    authPort: world.network.port,
    upstreamPort: world.upstream.port,
  };
  for (const start of [startNginx, startCaddy, startHaproxy]) {
    const gateway = await start(setting);
    await expectRecovery(gateway, world);
    await checkVerdicts(gateway, world);
    await checkOpenPaths(gateway);
    await checkBodies(gateway, world);
    await checkUnusualForms(gateway, world);
    await checkQuestion(gateway, world, cleanup);
    await checkOutages(gateway, world);
    await checkFailures(gateway, world);
  }
}

await checks.around(checkAll);
