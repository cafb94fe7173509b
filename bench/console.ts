// How long the pages of the console take, and how large they are, with 20,000 nodes, 1,000 app credentials of 200
// services, 200,000 users, 100,000 audit events and 200,000 known networks. It runs on loopback, prints the figures,
// and fails for none of them.
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
const FILL = `
  INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
    SELECT gen_random_uuid(), 'user-' || n || '@example.org', 'x', n % 10000 > 0, now(), now() FROM generate_series(1, 200000) n;
  INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at, last_used_at, expires_at)
    SELECT gen_random_uuid(), md5((n / 5)::text)::uuid, 'room ' || n % 5, 'lamp ' || n, '\\x00', now() - interval '1 year', now(),
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
  ...[
    '',
    '/map',
    '/map?service=service-1',
    '/map?revoked=true',
    '/app-credentials',
    '/nodes',
    '/nodes?search=4711',
    '/operators',
  ],
  ...['/users', '/users?throttled=true', '/users?without_factor=true'],
  ...['/explain', '/explain?about=192.0.2.7', '/audit-events', '/audit-events?event=user.login.failed'],
];

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
  await withClient(database.url(), async (client) => {
    await client.query(FILL);
    await client.query('VACUUM ANALYZE');
  });
  await sleep(IDLE_DELAY_MS);
  const megabytesWithout = readResidentMegabytes(without.pid) ?? NaN;
  await without.stop();
  const server = await start('on');
  await sleep(IDLE_DELAY_MS);
  const megabytes = readResidentMegabytes(server.pid) ?? NaN;
  const cookie = await logIn(server.url, secrets.ADMIN_API_KEY);
  const rows: string[][] = [];
  for (const path of PAGES) {
    const times: number[] = [];
    let size = 0;
    for (let round = 0; round < ROUNDS; round += 1) {
      const startedAt = performance.now();
      const response = await fetch(`${server.url}/console${path}`, { headers: { cookie } });
      size = (await response.arrayBuffer()).byteLength;
      times.push(performance.now() - startedAt);
      if (response.status !== 200) throw new Error(`/console${path} answered ${response.status}`);
    }
    const figures = [Math.min(...times), percentile(times, 0.5), size / 1_000].map((figure) => formatFigure(figure, 1));
    rows.push([`/console${path}`, ...figures]);
  }
  console.log(`\nNode ${process.version}, ${ROUNDS} requests for each page, one after the other\n`);
  printTable(['page', 'best, ms', 'median, ms', 'KB'], rows);
  console.log(
    `\nidle: ${formatFigure(megabytesWithout)} MB with CONSOLE=off, ${formatFigure(megabytes)} MB with CONSOLE=on`,
  );
});

async function logIn(url: string, key: string): Promise<string> {
  const body = new URLSearchParams({ key });
  const headers = { origin: url };
  const response = await fetch(`${url}/console/login`, { method: 'POST', body, headers, redirect: 'manual' });
  const cookie = response.headers.get('set-cookie')?.split(';', 1)[0];
  if (cookie === undefined) throw new Error(`The login answered ${response.status}`);
  return cookie;
}
