// What the gateway asks, seen by a server in the place of platform-auth, and what it makes of the answer.
import { eventually } from '../../tools/eventually.js';
import { DOORS, type Door, type Headers, type World } from './world.js';
import { expectEqual, expectIdentity, Echo, send, type Answer, type Received } from './http.js';
import { forgeIdentity, forgeOrigin, originOf } from './headers.js';
import type { Gateway } from './gateways.js';

const FACTORS = 'pwd otp mfa';

interface Exchange {
  readonly question: Received;
  readonly answer: Answer;
}

/** Sends a request with a valid credential until a server that accepts everything is asked about it. */
async function askStandIn(
  { port }: Gateway,
  { network, cleanup, upstream, credentials }: World,
  { door, identity, headers }: { door: Door; identity: Readonly<Record<string, string>>; headers: Headers },
): Promise<Exchange> {
  const auth = await Echo.start(cleanup, identity);
  network.redirectTo(`http://127.0.0.1:${auth.port}`);
  upstream.seen.length = 0;
  const request = {
    method: 'POST',
    path: `/${door}/x?secret=1`,
    headers: [...headers, ...credentials[door].good],
    body: Buffer.alloc(100_000, 'x'),
  };
  const answers: Answer[] = [];
  await eventually('the gateway asks the stand-in', async () => {
    answers.push(await send(port, request));
    return upstream.seen.length > 0;
  });
  const question = auth.seen.find(({ url }) => url.startsWith('/internal/authorize/'));
  const answer = answers.at(-1);
  if (!question || !answer) throw new Error('The stand-in was not asked');
  return { question, answer };
}

export async function checkQuestion(gateway: Gateway, world: World): Promise<void> {
  const { checks, credentials, network, service } = world;
  await checks.run(`${gateway.name}: asks without body, cookies and query, and as its own service`, async () => {
    for (const door of DOORS) await expectQuestion(gateway, world, door);
  });
  await checks.run(
    `${gateway.name}: tells the service the client's address, and not the one that it claims`,
    async () => {
      for (const door of DOORS) {
        const { identity } = credentials[door];
        const { question } = await askStandIn(gateway, world, { door, identity, headers: forgeOrigin() });
        const { 'x-forwarded-for': address, ...rest } = originOf(question);
        expectEqual(address, '127.0.0.1');
        if (/192\.0\.2\.66/.test(JSON.stringify(rest))) throw new Error(JSON.stringify(rest));
      }
    },
  );
  await checks.run(`${gateway.name}, user: passes all factors of the session on`, async () => {
    const identity = { ...credentials.user.identity, 'x-auth-amr': FACTORS };
    const { answer } = await askStandIn(gateway, world, { door: 'user', identity, headers: forgeIdentity()[1] });
    expectIdentity(answer, identity);
  });
  await checks.run(`${gateway.name}, user: names no factor when the service names none`, async () => {
    const known = Object.entries(credentials.user.identity);
    const identity = Object.fromEntries(known.filter(([name]) => name !== 'x-auth-amr'));
    const { answer } = await askStandIn(gateway, world, { door: 'user', identity, headers: forgeIdentity()[1] });
    expectIdentity(answer, identity);
  });
  network.redirectTo(service.url);
}

async function expectQuestion(gateway: Gateway, world: World, door: Door): Promise<void> {
  const headers: Headers = [
    ['Cookie', 'a=b'],
    ['X-Platform-Target', 'speech'],
    ['X-Platform-Scope', 'documents:read'],
    ['Content-Type', 'text/plain'],
  ];
  const { question } = await askStandIn(gateway, world, { door, identity: world.credentials[door].identity, headers });
  const sent = Object.fromEntries(question.headers);
  const target = door === 'user' ? {} : { 'x-platform-target': sent['x-platform-target'] };
  const { cookie, 'content-type': type, 'content-length': length = '0', 'transfer-encoding': encoding } = sent;
  expectEqual(
    {
      url: question.url,
      body: question.length,
      scope: sent['x-platform-scope'],
      cookie,
      type,
      length,
      encoding,
      ...target,
    },
    {
      url: `/internal/authorize/${door}`,
      body: 0,
      scope: undefined,
      cookie: undefined,
      type: undefined,
      length: '0',
      encoding: undefined,
      ...(door !== 'user' && { 'x-platform-target': 'recipes' }),
    },
  );
}
