// Who passes, and who is refused.
import { DOORS, type World } from './world.js';
import {
  expectEqual,
  expectIdentity,
  expectMissingScope,
  expectRefusal,
  parseReceived,
  send,
  sendRaw,
} from './http.js';
import { writeUnusually } from './headers.js';
import type { Gateway } from './gateways.js';

const REFUSALS: readonly (number | undefined)[] = [400, 401, 431];
const CREDENTIAL_NAMES = ['x-api-key', 'authorization', 'x-platform-app-id', 'x-platform-app-key', 'x-platform-target'];

export async function checkVerdicts({ name, port }: Gateway, { checks, credentials, upstream }: World): Promise<void> {
  for (const door of DOORS) {
    const { good, bad, identity, code, challenge } = credentials[door];
    await checks.run(
      `${name}, ${door}: passes a valid credential's identity on, and the request as it came`,
      async () => {
        const path = `/${door}/a%20b/%C3%A4?q=1&q=${encodeURIComponent('/../x?y')}`;
        const headers = [...good, ['X-Custom', 'kept'], ['Cookie', 'a=b']] as const;
        const {
          method,
          url,
          headers: received,
        } = expectIdentity(await send(port, { method: 'PUT', path, headers }), identity);
        const custom = received.filter(([header]) => ['x-custom', 'cookie'].includes(header));
        expectEqual(
          { method, url, custom: Object.fromEntries(custom) },
          { method: 'PUT', url: path, custom: { 'x-custom': 'kept', cookie: 'a=b' } },
        );
        const left = received.filter(([header]) => CREDENTIAL_NAMES.includes(header));
        expectEqual(left, []);
      },
    );
    await checks.run(
      `${name}, ${door}: refuses an invalid credential with the service's code and its challenge, once`,
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
  }
  await checks.run(`${name}: does not tell the client of a refused request to send its body`, async () => {
    const lines = ['POST /node/x HTTP/1.1', 'Host: a', 'Content-Length: 5', 'Expect: 100-continue', 'X-API-Key: a:b'];
    expectEqual(await sendRaw(port, lines), 401);
  });
  await checks.run(
    `${name}: refuses a credential without the scope of a path, and a restricted one where no scope is named`,
    async () => {
      const { good } = credentials.restricted;
      upstream.seen.length = 0;
      for (const path of ['/app/documents', '/app/documents/x?y', '/app/DOCUMENTS/x', '/app/%64ocuments/x']) {
        const answer = await send(port, { path, headers: [...good, ['X-Platform-Scope', 'pages:count']] });
        expectMissingScope(answer, 'documents:read');
      }
      expectEqual(upstream.seen.length, 0);
      expectMissingScope(await send(port, { path: '/app/documentation', headers: good }));
      const reader = await send(port, { path: '/app/documents/x', headers: credentials.reader.good });
      expectIdentity(reader, credentials.reader.identity);
      const all = await send(port, { path: '/app/documents/x', headers: credentials.app.good });
      const { headers } = expectIdentity(all, credentials.app.identity);
      expectEqual(
        headers.filter(([header]) => header.startsWith('x-platform-')),
        [],
      );
    },
  );
  await checks.run(`${name}: passes the upstream's own 401, 403, 500 and 503 on`, async () => {
    for (const status of [401, 403, 500, 503]) {
      const answer = await send(port, { path: `/node/x?status=${status}`, headers: credentials.node.good });
      expectEqual([answer.status, parseReceived(answer).url], [status, `/node/x?status=${status}`]);
    }
  });
}

/** A credential in an unusual form is accepted only if the service accepts that form too. */
export async function checkUnusualForms(
  { name, port }: Gateway,
  { checks, service, credentials }: World,
): Promise<void> {
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
