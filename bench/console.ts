// How long the pages of the console take, and how large they are, with 200,000 users in 70,000 households, 20,000 nodes,
// 1,000 app credentials of 200 services, 100,000 audit events and 200,000 known networks, beside a route without any work.
// It runs on loopback, prints the figures, marks the pages that miss a target, and fails for none of them.
import { setTimeout as sleep } from 'node:timers/promises';
import { claimPort } from '../tools/claim-port.js';
import { Cleanup } from '../tools/cleanup.js';
import { startPostgres, withClient } from '../tools/postgres.js';
import { readResidentMegabytes } from '../tools/process-usage.js';
import { isHealthy, ServerProcess } from '../tools/server-process.js';
import { makeSecrets, productionVariables, SERVICE_FLAGS, SERVICE_SCRIPT } from '../tools/service.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';

const ROUNDS = 30;
const IDLE_DELAY_MS = 5_000;
const MAX_MS = 100;
const MAX_KILOBYTES = 150;
/** A valid UUID for each number. */
const toHouseholdId = (number: string): string =>
  `overlay(overlay(md5((${number})::text) PLACING '4' FROM 13) PLACING '8' FROM 17)::uuid`;
const FILL = `
  INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
    SELECT gen_random_uuid(), 'user-' || n || '@example.org', 'x', n % 10000 > 0, now(), now() FROM generate_series(1, 200000) n;
  INSERT INTO households (id, name, created_at, updated_at)
    SELECT ${toHouseholdId('n')}, 'home ' || n, now(), now() FROM generate_series(1, 70000) n
    ON CONFLICT (id) DO UPDATE SET name = excluded.name;
  INSERT INTO household_members (household_id, user_id, role, since)
    SELECT ${toHouseholdId('number % 70000 + 1')}, id, CASE WHEN number < 69900 THEN 'admin' ELSE 'member' END, now()
    FROM (SELECT id, row_number() OVER (ORDER BY id) AS number FROM users) AS numbered;
  INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at, last_used_at, expires_at)
    SELECT gen_random_uuid(), ${toHouseholdId('n / 5 + 1')}, 'room ' || n % 5, 'lamp ' || n, '\\x00', now() - interval '1 year', now(),
      now() - n % 100 * interval '1 day', CASE WHEN n % 100 = 0 THEN now() + n * interval '1 hour' END
    FROM generate_series(1, 20000) n;
  INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at, last_used_at)
    SELECT gen_random_uuid(), 'service-' || n % 200, 'service-' || (n * 7 + n / 200 * 13 + 1) % 200, '\\x00', now(), now(),
      now() - n * interval '1 minute' FROM generate_series(1, 1000) n ON CONFLICT DO NOTHING;
  INSERT INTO audit_events (id, time, event, actor_door, actor_id, subject, request_id, address, details, count)
    SELECT gen_random_uuid(), now() - n * interval '1 second', CASE WHEN n % 2 = 0 THEN 'user.login.succeeded' ELSE 'user.login.failed' END,
      'open', NULL, gen_random_uuid()::text, gen_random_uuid()::text, '192.0.2.' || n % 250, '{"reasons": {"wrong_password": 1}}', 1
    FROM generate_series(1, 100000) n;
  INSERT INTO throttle_windows (key, points, window_start, window_end, consumed, reserved, reserved_until, last_reserved)
    SELECT 'known-address:' || n, 1, now(), now() + n % 30 * interval '1 day', 1, 0, now(), 0 FROM generate_series(1, 200000) n;`;
const PAGES = [
  ...['', '/map', '/map?service=service-1', '/map?revoked=true', '/app-credentials', '/app-credentials/new'],
  ...['/nodes', '/nodes?limit=100', '/nodes?search=4711', '/nodes?sort=created_at', '/operators', '/enrolments'],
  ...['/users', '/users?sort=email', '/users?disabled=true', '/users?throttled=true', '/users?without_factor=true'],
  ...['/households', '/households?search=home+4711', '/households?without_admin=true'],
  ...['/explain', '/explain?about=192.0.2.7', '/audit-events', '/audit-events?event=user.login.failed'],
];
/** The pages of one resource, whose id replaces the word. */
const PAGES_OF_ONE = [
  '/users/USER',
  '/users/USER/disable',
  '/nodes/NODE',
  '/nodes/NODE/revoke',
  '/app-credentials/APP',
].concat(['/households/HOUSEHOLD', '/households/HOUSEHOLD/delete', '/explain?about=USER', '/explain?about=REQUEST']);
/** Forms that change nothing, by the page that has them. */
const FORMS = [
  ['/users', '/users/search', { search: 'user-4711' }],
  ['/users', '/users/search', { search: 'no such user' }],
  ['', '/search', { query: 'user-4711' }],
  ['/nodes?limit=100', '/nodes/choose', {}],
  ['/app-credentials?limit=100', '/app-credentials/choose', {}],
] as const;
const READ_IDS = `SELECT (SELECT user_id FROM household_members OFFSET 4711 LIMIT 1) AS "USER",
  (SELECT id FROM nodes OFFSET 4711 LIMIT 1) AS "NODE", (SELECT id FROM app_credentials LIMIT 1) AS "APP",
  (SELECT household_id FROM nodes OFFSET 4711 LIMIT 1) AS "HOUSEHOLD",
  (SELECT request_id FROM audit_events OFFSET 4711 LIMIT 1) AS "REQUEST"`;

await Cleanup.around(async (cleanup) => {
  const database = await startPostgres({ cleanup, purpose: 'bench-console' });
  const secrets = makeSecrets();
  const start = async (mode: 'on' | 'off'): Promise<ServerProcess> => {
    const variables = { ...productionVariables(database.url(), secrets), CONSOLE: mode };
    const program = { script: SERVICE_SCRIPT, flags: SERVICE_FLAGS, variables, isReady: isHealthy };
    const server = new ServerProcess(await claimPort(), { cleanup, ...program });
    await server.start();
    return server;
  };
  const without = await start('off');
  const ids = await fill(database.url());
  await sleep(IDLE_DELAY_MS);
  const megabytesWithout = readResidentMegabytes(without.pid) ?? NaN;
  await without.stop();
  const server = await start('on');
  await sleep(IDLE_DELAY_MS);
  const megabytes = readResidentMegabytes(server.pid) ?? NaN;
  const cookie = await logIn(server.url, secrets.ADMIN_API_KEY);
  const load = async (path: string, body?: URLSearchParams): Promise<string> => {
    const headers = { cookie, origin: server.url };
    const options = body ? { method: 'POST', body, headers, redirect: 'manual' as const } : { headers };
    const response = await fetch(server.url + path, options);
    if (response.status !== 200 && response.status !== 303) throw new Error(`${path} answered ${response.status}`);
    return response.text();
  };
  const rows = [await measure('/health/live', async () => load('/health/live'))];
  const ofOne = PAGES_OF_ONE.map((path) => path.replace(/[A-Z]+/g, (word) => ids[word] ?? word));
  for (const path of [...PAGES, ...ofOne]) rows.push(await measure(`/console${path}`, () => load(`/console${path}`)));
  for (const [page, action, fields] of FORMS) {
    const form = findForm(await load(`/console${page}`), `/console${action}`);
    const body = new URLSearchParams({ ...form, ...fields });
    rows.push(
      await measure(`form /console${action} ${body.get('search') ?? ''}`, () => load(`/console${action}`, body)),
    );
  }
  console.log(`\nNode ${process.version}, ${ROUNDS} requests for each page, one after the other\n`);
  printTable(['page', 'best, ms', 'median, ms', 'KB', `above ${MAX_MS} ms or ${MAX_KILOBYTES} KB`], rows);
  console.log(
    `\nidle: ${formatFigure(megabytesWithout)} MB with CONSOLE=off, ${formatFigure(megabytes)} MB with CONSOLE=on`,
  );
});

/** @returns the ids of a resource of each kind */
async function fill(url: string): Promise<Readonly<Record<string, string>>> {
  return withClient(url, async (client) => {
    await client.query(FILL);
    await client.query('VACUUM ANALYZE');
    return (await client.query<Record<string, string>>(READ_IDS)).rows[0] ?? {};
  });
}

async function measure(name: string, load: () => Promise<string>): Promise<string[]> {
  const times: number[] = [];
  let size = 0;
  for (let round = 0; round < ROUNDS; round += 1) {
    const startedAt = performance.now();
    size = Buffer.byteLength(await load()) / 1_000;
    times.push(performance.now() - startedAt);
  }
  const best = Math.min(...times);
  const figures = [best, percentile(times, 0.5), size].map((figure) => formatFigure(figure, 1));
  return [name, ...figures, best > MAX_MS || size > MAX_KILOBYTES ? 'yes' : ''];
}

/** @returns the hidden fields of the last form with this action */
function findForm(page: string, action: string): Record<string, string> {
  const form = page.split('<form ').findLast((each) => each.includes(`action="${action}"`)) ?? '';
  const fields = form.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g);
  return Object.fromEntries([...fields].map(([, name = '', value = '']) => [name, value.replaceAll('&amp;', '&')]));
}

async function logIn(url: string, key: string): Promise<string> {
  const body = new URLSearchParams({ key });
  const headers = { origin: url };
  const response = await fetch(`${url}/console/login`, { method: 'POST', body, headers, redirect: 'manual' });
  const cookie = response.headers.get('set-cookie')?.split(';', 1)[0];
  if (cookie === undefined) throw new Error(`The login answered ${response.status}`);
  return cookie;
}
