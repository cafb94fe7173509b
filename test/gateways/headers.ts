// What a client claims in headers does not reach the upstream.
import { DOORS } from './credentials.js';
import { expectEqual, expectIdentity } from './expectations.js';
import { forgeIdentity, forgeOrigin, ORIGIN_NAMES } from './forgeries.js';
import type { Gateway } from './gateways.js';
import { send, type Received } from './http.js';
import type { World } from './world.js';

export async function checkHeaders({ name, port }: Gateway, { checks, credentials }: World): Promise<void> {
  for (const door of DOORS) {
    const { good, identity } = credentials[door];
    await checks.run(`${name}, ${door}: removes every forged identity header`, async () => {
      const headers = [...forgeIdentity(), ...good];
      expectIdentity(await send(port, { path: `/${door}/x`, headers }), identity);
    });
    await checks.run(`${name}, ${door}: keeps the identity when Connection names its headers`, async () => {
      const names = ['x-auth-door', ...Object.keys(identity), 'X-Platform-Target', 'X-Forwarded-For'].join(', ');
      const received = expectIdentity(
        await send(port, { path: `/${door}/x`, headers: [['Connection', names], ...good] }),
        identity,
      );
      const named = received.headers.filter(([header, value]) => header === 'connection' && /x-/i.test(value));
      expectEqual(named, []);
      expectEqual(originOf(received)['x-forwarded-for'], '127.0.0.1');
    });
    await checks.run(`${name}, ${door}: states the client's address itself`, async () => {
      const headers = [...forgeOrigin(), ...good];
      expectOwnOrigin(expectIdentity(await send(port, { path: `/${door}/x`, headers }), identity));
    });
  }
  await checks.run(`${name}: removes forged identity headers on an open path`, async () => {
    expectIdentity(await send(port, { path: '/open/x?y', headers: forgeIdentity() }), {});
  });
  await checks.run(`${name}: states the client's address itself on an open path`, async () => {
    expectOwnOrigin(expectIdentity(await send(port, { path: '/open/x', headers: forgeOrigin() }), {}));
  });
  await checks.run(`${name}, app: overwrites a client's own X-Platform-Target`, async () => {
    const { good, identity } = credentials.app;
    const forged = ['X-Platform-Target', 'x-platform-target', 'X_Platform_Target', 'X.Platform.Target'].map(
      (header) => [header, 'speech'] as const,
    );
    const received = expectIdentity(await send(port, { path: '/app/x', headers: [...forged, ...good] }), identity);
    expectEqual(
      received.headers.filter(([header]) => /target/.test(header)),
      [],
    );
  });
}

/** What the receiver takes for the origin of a request. Repeated headers are joined, as RFC 9110 §5.2 says. */
export function originOf({ headers }: Received): Record<string, string> {
  const origin: Record<string, string> = {};
  for (const [name, value] of headers) {
    const meant = name.replaceAll(/[_.]/g, '-');
    if (!ORIGIN_NAMES.includes(meant)) continue;
    origin[meant] = meant in origin ? `${origin[meant]}, ${value}` : value;
  }
  return origin;
}

function expectOwnOrigin(received: Received): void {
  const {
    'x-forwarded-for': address,
    'x-forwarded-host': host,
    'x-forwarded-proto': scheme,
    ...rest
  } = originOf(received);
  expectEqual(
    { address, host, scheme, ...rest },
    { address: '127.0.0.1', host: 'recipes.example.org', scheme: 'http' },
  );
}
