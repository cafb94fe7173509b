// The configurations of deploy/ha/ with the real HAProxy and PgBouncer, which Debian ships, before a real primary and
// its streaming standby. Patroni is stood in for by its one answer that HAProxy asks for. Prints what was checked; the
// last line counts it.
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { cleanUp, defer } from '../../chaos/cleanup.js';
import { Postgres } from '../../chaos/postgres.js';
import { freePort } from '../../dist/src/embedded-postgres/free-port.js';

const WAIT_MS = 45_000;
const POLL_MS = 100;
const root = join(import.meta.dirname, '../..');
const MAIN = join(root, 'dist/src/main.js');
const ADMIN_KEY = 'ha-admin-Kq3vYt8sLw2nXz5rBd7fGh1jMp4cQe6u';
const folder = mkdtempSync(join(tmpdir(), 'platform-auth-ha-'));
chmodSync(folder, 0o755);
defer(() => rmSync(folder, { recursive: true, force: true }));

let passed = 0;
let failed = 0;

function check(name, isTrue, said = '') {
  if (isTrue) passed += 1;
  else failed += 1;
  console.log(isTrue ? `✓ ${name}` : `✗ ${name} ${said}`);
}

async function eventually(what, isSo) {
  for (let waitedMs = 0; !(await isSo()); waitedMs += POLL_MS) {
    if (waitedMs > WAIT_MS) throw new Error(`It never happened that ${what}`);
    await sleep(POLL_MS);
  }
}

/** A program that ends with this one. PgBouncer refuses to run as root. */
function run(program, flags, options = {}) {
  const child = spawn(program, flags, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  const running = { child, output: '', ended: new Promise((resolve) => child.once('exit', resolve)) };
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (running.output += chunk));
  defer(async () => {
    child.kill('SIGKILL');
    await running.ended;
  });
  return running;
}

async function startService(databaseUrl, more = {}) {
  const port = await freePort();
  const env = {
    PATH: process.env.PATH,
    NODE_ENV: 'production',
    HOST: '127.0.0.1',
    PORT: String(port),
    SECRET_KEY: 'ha-signing-Zr9tWx4yVb6nMk2jHg8fDs3aQp5oLi7u',
    ADMIN_API_KEY: ADMIN_KEY,
    BCRYPT_COST: '4',
    SHUTDOWN_DELAY_MS: '0',
    LOG_LEVEL: 'warn',
    DATABASE_URL: databaseUrl,
    ...more,
  };
  const service = run(process.execPath, [MAIN], { env });
  return Object.assign(service, { url: `http://127.0.0.1:${port}` });
}

async function statusOf(url, options) {
  try {
    const answer = await fetch(url, options);
    return { status: answer.status, body: await answer.json().catch(() => undefined) };
  } catch {
    return { status: undefined };
  }
}

async function isReady({ url, child, output }) {
  if (child.exitCode !== null) throw new Error(`The service did not start:\n${output}`);
  return (await statusOf(`${url}/health`)).status === 200;
}

async function registerNode({ url }) {
  const { body } = await statusOf(`${url}/api/v0/admin/nodes`, {
    method: 'POST',
    headers: { 'X-Admin-Key': ADMIN_KEY, 'Content-Type': 'application/json' },
    body: JSON.stringify({ household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' }),
  });
  return `${body.node_id}:${body.api_key}`;
}

async function validate({ url }, header) {
  return (await statusOf(`${url}/internal/validate-node`, { method: 'POST', headers: { 'X-API-Key': header } })).status;
}

/** Answers 200 while a server is the primary, as Patroni does, and 503 otherwise. */
async function patroniOf(postgres) {
  const server = createServer((_, response) => {
    postgres
      .query('SELECT pg_is_in_recovery() AS standby')
      .then(([{ standby }]) => (standby ? 503 : 200))
      .catch(() => 503)
      .then((status) => response.writeHead(status).end());
  });
  const port = await freePort();
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  defer(() => server.close());
  return port;
}

/** deploy/ha/haproxy.cfg, with the addresses of this machine. */
async function startHaproxy(members) {
  const port = await freePort();
  let text = readFileSync(join(root, 'deploy/ha/haproxy.cfg'), 'utf8')
    .replace('bind :5432', `bind 127.0.0.1:${port}`)
    .replace('server db3 db3:5432 init-addr libc,none', '');
  for (const [index, member] of members.entries()) {
    const name = `db${index + 1}`;
    text = text.replace(`${name}:5432`, `127.0.0.1:${member.port} port ${await patroniOf(member)}`);
  }
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(file, text);
  run('haproxy', ['-db', '-f', file]);
  return Object.assign(new URL(members[0].url), { port: String(port) }).toString();
}

/** deploy/ha/pgbouncer.ini, with the addresses of this machine. */
async function startPgBouncer(postgres, mode, user) {
  const { username, pathname } = new URL(postgres.url);
  const [{ secret }] = await postgres.query(`SELECT rolpassword AS secret FROM pg_authid WHERE rolname = $1`, [
    username,
  ]);
  const port = await freePort();
  const users = join(folder, 'userlist.txt');
  writeFileSync(users, `"${username}" "${secret}"\n`);
  const settings = [
    [/^auth = .*$/m, `${pathname.slice(1)} = host=127.0.0.1 port=${postgres.port}`],
    [/^listen_addr = .*$/m, 'listen_addr = 127.0.0.1'],
    [/^listen_port = .*$/m, `listen_port = ${port}\nunix_socket_dir =`],
    [/^auth_file = .*$/m, `auth_file = ${users}`],
    [/^pool_mode = .*$/m, `pool_mode = ${mode}`],
  ];
  const example = readFileSync(join(root, 'deploy/ha/pgbouncer.ini'), 'utf8');
  const file = join(folder, `pgbouncer-${mode}.ini`);
  writeFileSync(
    file,
    settings.reduce((text, [line, value]) => text.replace(line, value), example),
  );
  const pgbouncer = run('pgbouncer', [file], user ?? {});
  await eventually(`PgBouncer listens (${pgbouncer.output})`, () => pgbouncer.output.includes('process up'));
  return Object.assign(new URL(postgres.url), { port: String(port) }).toString();
}

/** A statement that PostgreSQL itself does not end waits on after the service has given up on it. */
async function limitsHold(service, postgres) {
  const locker = new pg.Client({ connectionString: postgres.url });
  await locker.connect();
  await locker.query('BEGIN; LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE');
  const status = await validate(service, '0199a7c2-5b1e-7cc3-98c4-dc0c0c07398f:unknown');
  const waiting = await postgres.query(`SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'`);
  await locker.end();
  return status === 503 && waiting.length === 0;
}

async function checkPgBouncer(postgres) {
  const { user } = postgres.place;
  const service = await startService(await startPgBouncer(postgres, 'session', user));
  await eventually('the service is ready behind PgBouncer', () => isReady(service));
  check('PgBouncer, pool_mode = session: the service starts and is healthy', true);
  const node = await registerNode(service);
  const statuses = await Promise.all(Array.from({ length: 100 }, () => validate(service, node)));
  check(
    'PgBouncer, pool_mode = session: 100 validations at once are 200',
    statuses.every((status) => status === 200),
  );
  check('PgBouncer, pool_mode = session: limits hold that it drops at the start', await limitsHold(service, postgres));
  service.child.kill('SIGTERM');
  check('PgBouncer, pool_mode = session: the service stops cleanly', (await service.ended) === 0);
  for (const mode of ['transaction', 'statement']) {
    const refused = await startService(await startPgBouncer(postgres, mode, user), { START_TIMEOUT_SECONDS: '10' });
    const code = await refused.ended;
    const says = /PgBouncer.*pool_mode = transaction or statement.*pool_mode = session/.test(refused.output);
    check(`PgBouncer, pool_mode = ${mode}: refused at the start by name`, code === 1 && says, refused.output);
  }
}

async function checkFailover(primary) {
  const standby = await primary.withStandby();
  const url = await startHaproxy([primary, standby]);
  const service = await startService(url, { REVOCATION_LEASE_MS: '0' });
  await eventually('the service is ready behind HAProxy', () => isReady(service));
  const before = await registerNode(service);
  check('HAProxy: the service works on the primary', (await validate(service, before)) === 200);
  await primary.kill();
  const statuses = new Set();
  for (let i = 0; i < 20; i += 1) statuses.add(await validate(service, before));
  check('HAProxy: without a primary every validation is 503', [...statuses].join() === '503', [...statuses].join());
  await standby.control('promote', '--wait');
  await eventually('the service is ready on the promoted standby', () => isReady(service));
  check('HAProxy: the acknowledged node is valid on the promoted standby', (await validate(service, before)) === 200);
  check('HAProxy: a write succeeds there', (await validate(service, await registerNode(service))) === 200);
  service.child.kill('SIGTERM');
  check('HAProxy: the service stops cleanly', (await service.ended) === 0);
}

try {
  execFileSync('haproxy', ['-c', '-f', join(root, 'deploy/ha/haproxy.cfg')], { stdio: 'ignore' });
  check('deploy/ha/haproxy.cfg is valid', true);
  const postgres = await Postgres.start();
  await checkPgBouncer(postgres);
  await checkFailover(postgres);
} catch (error) {
  console.error(error);
  failed += 1;
}
await cleanUp();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
