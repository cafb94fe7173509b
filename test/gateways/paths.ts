// The door of a path, and paths that the upstream could resolve to another one.
import { DOORS, type World } from './world.js';
import { expectEqual, expectIdentity, send, sendRaw } from './http.js';
import type { Gateway } from './gateways.js';

/** Between two folders: what some service takes for a step from the first into the second. */
const STEPS: readonly string[] = [
  '/../',
  '/..%2f',
  '/..%2F',
  '%2f..%2f',
  '/%2e%2e/',
  '/%2E%2E%2F',
  '/.%2e/',
  '/%2E./',
  '//../',
  '/./../',
  '\\..\\',
  '/..\\',
  '/%5c..%5c',
  '/..%5C',
  '/x/../../',
  // Tomcat and Spring cut parameters off, and resolve what is left.
  '/..;/',
  '/..;a=b/',
  '/..%3b/',
  '/..%3B/',
  '/x;/..;/../',
];

function listResolvable(door: string): string[] {
  const ways = STEPS.flatMap((step) => [`/${door}${step}open/x`, `/open${step}${door}/x`]);
  return [
    ...ways,
    `//${door}/x`,
    `/./${door}/x`,
    `/open/../open/../${door}/x`,
    `/open/../${door}/x?y=1`,
    '/open/..',
    '/open/..?x',
    '/open/.',
    '/open//x',
    `http://a/open/../${door}/x`,
    `http://a/${door}/../open/x`,
  ];
}

export async function checkPaths({ name, port }: Gateway, { checks, credentials, upstream }: World): Promise<void> {
  for (const door of DOORS) {
    const { good, identity } = credentials[door];
    await checks.run(`${name}, ${door}: refuses each path that the upstream could resolve to another one`, async () => {
      const odd: string[] = [];
      for (const path of listResolvable(door)) {
        upstream.seen.length = 0;
        const status = await sendRaw(port, [`GET ${path} HTTP/1.1`, 'Host: a']);
        const seen = upstream.seen.map(({ url }) => url).join();
        if (status !== 400 || seen !== '') odd.push(`${path} answered ${status}, the upstream saw ${seen}`);
      }
      if (odd.length > 0) throw new Error(odd.join('\n'));
    });
    await checks.run(`${name}, ${door}: passes other dots on, and any query`, async () => {
      const path = `/${door}/.a/..b/c./d../...?q=/../x;y//%2e%2f\\`;
      expectEqual(expectIdentity(await send(port, { path, headers: good }), identity).url, path);
    });
  }
  await checks.run(`${name}: answers 404 to a path without a door`, async () => {
    upstream.seen.length = 0;
    for (const path of ['/', '/users/x', '/opened/x']) expectEqual((await send(port, { path })).status, 404);
    expectEqual(upstream.seen.length, 0);
  });
}
