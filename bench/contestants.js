import { randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { EmbeddedPostgres } from '../dist/src/embedded-postgres/embedded-postgres.js';
import { loginFlood, overHttp } from './loads.js';
import { freePort } from '../dist/src/embedded-postgres/free-port.js';
import { post, Processes } from './processes.js';
import { CONNECTIONS } from './shared.js';

const PASSWORD = 'a perfectly fine passphrase';
const JSON_BODY = { 'Content-Type': 'application/json' };
export const SECRETS = { SECRET_KEY: randomBytes(32).toString('hex'), ADMIN_API_KEY: randomBytes(32).toString('hex') };

export const NAMES = {
  http: 'bare node:http',
  nest: 'bare Nest + Express',
  stock: 'stock Nest + Express + passport-headerapikey + nestjs-pino',
  stockFlags: "stock, with the service's flags of Node.js",
  node: 'validate-node',
  app: 'validate-app',
  nodeOff: 'validate-node, memory off',
  pgHttp: 'its query through pg, behind node:http',
  pg: 'its query through pg alone',
  users: 'users/{id} (bearer)',
  usersAlone: 'its statements and signature alone',
  refresh: 'refresh',
  refreshAlone: 'its statements and signatures alone',
  login: 'login (bcrypt, cost 12)',
  bcrypt: 'raw bcrypt on all cores',
  live: 'health/live',
};

/** Starts a PostgreSQL, and what runs beside it as it is asked for. */
export async function startPlace(profiles) {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-bench-'));
  const database = await EmbeddedPostgres.start({
    folder,
    makePassword: () => randomBytes(16).toString('hex'),
    // Several services and baselines are connected at once.
    settings: { max_connections: '300' },
  });
  const processes = new Processes();
  const stop = async () => {
    await processes.stop();
    await database.remove();
    rmSync(folder, { recursive: true, force: true });
  };
  return { database, processes, profiles, stop };
}

/** The service as shipped. */
export async function startService({ database, processes, profiles }, variables = {}, databaseName = 'postgres') {
  const metricsPort = await freePort();
  const environment = (port) => ({
    NODE_ENV: 'production',
    SHUTDOWN_DELAY_MS: '0',
    HOST: '127.0.0.1',
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    DATABASE_URL: database.url(databaseName),
    ...SECRETS,
    // One address does it all. The counting is measured; the refusal is not.
    REFRESH_LIMIT_PER_ADDRESS: '9999999/3600',
    ...variables,
  });
  const service = await processes.serve('dist/src/main.js', [], environment, { profiles });
  return { ...service, metricsUrl: `http://127.0.0.1:${metricsPort}/metrics` };
}

/** Everything that is compared; processes that are not wanted are not started. */
export async function contestantsOf(place, isWanted) {
  const service = await startService(place);
  const known = await populate(service.url);
  const makers = [...servers(place, service, known), ...routes(place, service, known)];
  const contestants = [];
  for (const [name, make] of makers) if (isWanted(name)) contestants.push({ ...(await make(name)), name });
  return { contestants, known };
}

function servers(place, service, known) {
  const baseline = (kind, options) => async (name) => {
    const variables = () => ({ DATABASE_URL: place.database.url() });
    const server = await place.processes.serve('bench/baselines.js', [kind], variables, options);
    return overHttp({ name, ...server, requestsOf: (i) => [{ ...nodeOf(known, i), path: '/' }] });
  };
  return [
    [NAMES.http, baseline('http')],
    [NAMES.nest, baseline('nest')],
    [NAMES.stock, baseline('stock', { flags: [] })],
    [NAMES.stockFlags, baseline('stock')],
    [NAMES.node, (name) => overHttp({ name, ...service, requestsOf: (i) => [nodeOf(known, i)] })],
    [NAMES.app, (name) => overHttp({ name, ...service, requestsOf: (i) => [appOf(known, i)] })],
    [
      NAMES.nodeOff,
      async (name) => {
        const off = await startService(place, { REVOCATION_LEASE_MS: '0' });
        return overHttp({ name, ...off, requestsOf: (i) => [nodeOf(known, i)] });
      },
    ],
    [NAMES.pgHttp, baseline('pg')],
  ];
}

function routes(place, service, known) {
  const task = { databaseUrl: place.database.url(), ...known };
  const alone = (kind) => async (name) => ({ name, load: await place.processes.work(kind, task) });
  const connections = 2 * availableParallelism();
  return [
    [NAMES.pg, alone('pg')],
    [NAMES.users, (name) => overHttp({ name, ...service, requestsOf: (i) => [userOf(known, i)] })],
    [NAMES.usersAlone, alone('users')],
    [NAMES.refresh, (name) => refreshing(name, service, known)],
    [NAMES.refreshAlone, alone('refresh')],
    [
      NAMES.login,
      (name) => {
        const logins = known.people.map((person) => logIn(service, person));
        return loginFlood({ name, ...service, logins, connections, validation: validateNode(service, known) });
      },
    ],
    [
      NAMES.bcrypt,
      async (name) => {
        const client = new pg.Client({ connectionString: place.database.url() });
        await client.connect();
        const { rows } = await client.query('SELECT password_hash FROM users LIMIT 1');
        await client.end();
        const bcrypt = { passwordHash: rows[0].password_hash, threads: availableParallelism() };
        return { name, load: await place.processes.work('bcrypt', bcrypt) };
      },
    ],
    [NAMES.live, (name) => overHttp({ name, ...service, requestsOf: () => [{ path: '/health/live' }] })],
  ];
}

/** A node, an app and a person who is logged in for each connection, through the service's own doors. */
export async function populate(url) {
  const admin = { 'X-Admin-Key': SECRETS.ADMIN_API_KEY };
  const ofEach = (make) => Promise.all(Array.from({ length: CONNECTIONS }, (_, i) => make(i)));
  const nodes = await ofEach((i) =>
    post(`${url}/api/v0/admin/nodes`, { household_id: randomUUID(), room: 'hall', name: `lamp ${i}` }, admin),
  );
  const apps = await ofEach((i) =>
    post(`${url}/api/v0/admin/app-credentials`, { caller: `caller-${i}`, target: 'auth' }, admin),
  );
  const people = Array.from({ length: CONNECTIONS }, (_, i) => ({
    email: `bench${i}@example.org`,
    password: PASSWORD,
  }));
  const users = await Promise.all(people.map((person) => post(`${url}/api/v0/auth/register`, person)));
  const logins = await Promise.all(people.map((person) => post(`${url}/api/v0/auth/login`, person)));
  const bearers = logins.map(({ access_token: token }, i) => {
    const { sid: sessionId } = JSON.parse(Buffer.from(token.split('.')[1], 'base64url').toString());
    return { userId: users[i].id, sessionId, token };
  });
  return { nodes, apps, people, bearers };
}

export function nodeRequest(id, key) {
  return { method: 'POST', path: '/internal/validate-node', headers: { 'X-API-Key': `${id}:${key}` } };
}

export function appRequest(id, key) {
  const headers = { 'X-Platform-App-Id': id, 'X-Platform-App-Key': key };
  return { method: 'POST', path: '/internal/validate-app', headers };
}

export function userRequest(id, token) {
  return { method: 'GET', path: `/api/v0/users/${id}`, headers: { Authorization: `Bearer ${token}` } };
}

// What the connection with a number presents.
const nodeOf = ({ nodes }, i) => nodeRequest(nodes[i].node_id, nodes[i].api_key);
const appOf = ({ apps }, i) => appRequest(apps[i].app_id, apps[i].app_key);
const userOf = ({ bearers }, i) => userRequest(bearers[i].userId, bearers[i].token);

/** One node's, with the address that it goes to. */
export function validateNode({ url }, known) {
  const { path, ...rest } = nodeOf(known, 0);
  return { url: url + path, ...rest };
}

export function logIn({ url }, person) {
  return { url: `${url}/api/v0/auth/login`, method: 'POST', headers: JSON_BODY, body: JSON.stringify(person) };
}

/** Each connection rotates a session of its own: it presents what it was given last. */
export function refreshing(name, { url, pid }, { people }) {
  let bodies = [];
  const bodyOf = ({ refresh_token }) => JSON.stringify({ refresh_token });
  return overHttp({
    name,
    pid,
    url: `${url}/api/v0/auth/refresh`,
    method: 'POST',
    headers: JSON_BODY,
    // The last answers of a measurement are lost, and with them, after the grace, their sessions.
    prepare: async () => {
      bodies = (await Promise.all(people.map((person) => post(`${url}/api/v0/auth/login`, person)))).map(bodyOf);
    },
    setupClient: (client) => {
      client.setBody(bodies.pop());
      client.on('body', (answer) => client.setBody(bodyOf(JSON.parse(answer.toString()))));
    },
  });
}
