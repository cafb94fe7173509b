// What a client claims in headers does not reach the upstream.
import { DOORS, type Headers, type World } from './world.js';
import { expectEqual, expectIdentity, send, type Received } from './http.js';
import type { Gateway } from './gateways.js';

export async function checkHeaders({ name, port }: Gateway, { checks, credentials }: World): Promise<void> {
  for (const door of DOORS) {
    const { good, identity } = credentials[door];
    await checks.run(`${name}, ${door}: removes every forged identity header`, async () => {
      for (const forged of forgeIdentity())
        expectIdentity(await send(port, { path: `/${door}/x`, headers: [...forged, ...good] }), identity);
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
    for (const headers of forgeIdentity()) expectIdentity(await send(port, { path: '/open/x?y', headers }), {});
  });
  await checks.run(`${name}, user: removes forged households of a user who has none`, async () => {
    const { good, identity } = credentials.homeless;
    const [, forged] = forgeIdentity();
    expectIdentity(await send(port, { path: '/user/x', headers: [...forged, ...good] }), identity);
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

/** By which services learn where a request came from, or which path was asked for. */
const ORIGIN_NAMES: readonly string[] = [
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-port',
  'x-forwarded-prefix',
  'x-forwarded-server',
  'x-forwarded-scheme',
  'x-forwarded-ssl',
  'x-forwarded-uri',
  'x-forwarded-user',
  'x-forwarded-email',
  'x-real-ip',
  'x-original-url',
  'x-rewrite-url',
];

/** Characters that frameworks read as a hyphen: many of them the underscore, PHP also the dot. */
const SEPARATORS = ['_', '.'];

/** @returns the name with the separator instead of its first hyphen, and instead of all hyphens */
function confuse(name: string, separator: string): string[] {
  return [name.replace('-', separator), name.replaceAll('-', separator).toLowerCase()];
}

/** Every header of an origin, in all spellings that some framework takes for it, and repeated. */
export function forgeOrigin(): Headers {
  return ORIGIN_NAMES.flatMap((name): Headers => {
    const spellings = [name, name.toUpperCase(), ...SEPARATORS.flatMap((other) => confuse(name, other))];
    return spellings.map((spelling) => [spelling, '192.0.2.66']);
  });
}

const IDENTITY = ['Door', 'Node-Id', 'Household-Id', 'App-Id', 'Caller', 'Scopes'];
const IDENTITY_OF_USERS = ['User-Id', 'Session-Id', 'Email', 'Amr', 'Households'];

/** Every identity header, in all spellings that some framework takes for it, for two requests: HAProxy reads 101 headers. */
export function forgeIdentity(): [Headers, Headers] {
  const forge = (names: readonly string[]): Headers =>
    names.flatMap((end): Headers => {
      const name = `X-Auth-${end}`;
      // nginx and others cannot name a header that no one sends: only known ones are removed.
      const known = [name, name.toLowerCase(), name.toUpperCase(), name];
      const confusable = SEPARATORS.flatMap((other) => [...confuse(name, other), `X-Auth${other}${end}`]);
      return [...(end === 'Other' ? [] : known), ...confusable].map((spelling) => [spelling, 'forged']);
    });
  return [forge([...IDENTITY, 'Other']), forge(['Door', ...IDENTITY_OF_USERS])];
}

/** Lines of a header that is written unusually. `[name, value]` is a good credential. */
export function writeUnusually([name, value]: readonly [string, string]): Readonly<Record<string, readonly string[]>> {
  return {
    'no space': [`${name}:${value}`],
    'spaces and tabs around it': [`${name}: \t ${value} \t `],
    'small letters': [`${name.toLowerCase()}: ${value}`],
    'capital letters': [`${name.toUpperCase()}: ${value}`],
    underscores: [`${name.replaceAll('-', '_')}: ${value}`],
    'a space before the colon': [`${name} : ${value}`],
    'a folded line': [`${name}: ${value}`, ' x'],
    'a folded empty line': [`${name}:`, ` ${value}`],
    'joined with a comma': [`${name}: ${value}, ${value}`],
    'a comma at the end': [`${name}: ${value},`],
    'an empty value': [`${name}:`],
    'an empty second one': [`${name}: ${value}`, `${name}:`],
    'an empty first one': [`${name}:`, `${name}: ${value}`],
    doubled: [`${name}: ${value}`, `${name}: ${value}`],
    'doubled in another case': [`${name}: ${value}`, `${name.toUpperCase()}: ${value}`],
    'another one first': [`${name}: x`, `${name}: ${value}`],
    'a null byte': [`${name}: ${value}\0`],
    'a control character': [`${name}: \x01${value}`],
    'a delete character': [`${name}: ${value}\x7f`],
    'a carriage return': [`${name}: ${value}\rX-Other: y`],
    'bytes that are not ASCII': [`${name}: ${value}\xe9\xff`],
    'quotation marks': [`${name}: "${value}"`],
    '7,000 characters': [`${name}: ${'x'.repeat(7_000)}`],
    '12,000 characters': [`${name}: ${'x'.repeat(12_000)}`],
    '40,000 characters': [`${name}: ${'x'.repeat(40_000)}`],
  };
}
