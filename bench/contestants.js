import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedPostgres } from '../dist/src/database/embedded-postgres.js';

const ADMIN_API_KEY = randomBytes(32).toString('hex');
const PERSON = { email: 'bench@example.org', password: 'a perfectly fine passphrase' };
const CONNECTIONS = 64;
const START_MS = 30_000;

/** Starts a PostgreSQL, the service as shipped, and the baselines. */
export async function startEverything() {
  const database = await EmbeddedPostgres.start({
    folder: mkdtempSync(join(tmpdir(), 'platform-auth-bench-')),
    makePassword: () => randomBytes(16).toString('hex'),
  });
  const children = [];
  const stop = async () => {
    for (const child of children) child.kill('SIGKILL');
    await database.remove();
  };
  try {
    const service = await start(children, ['--max-semi-space-size=64', 'dist/src/main.js'], (port) => ({
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      PORT: String(port),
      DATABASE_URL: database.url(),
      SECRET_KEY: randomBytes(32).toString('hex'),
      ADMIN_API_KEY,
      // One address does it all. The counting is measured; the refusals are not.
      REFRESH_LIMIT_PER_ADDRESS: '9999999/3600',
      LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '1000/900',
      LOGIN_LIMIT_PER_ACCOUNT: '1000/900',
      LOGIN_LIMIT_PER_ADDRESS: '1000/900',
    }));
    const baseline = (kind) => start(children, ['bench/baselines.js', kind]);
    const [http, nest, guarded] = [await baseline('http'), await baseline('nest'), await baseline('guarded')];
    const contestants = [
      { name: 'bare node:http', url: http, method: 'POST' },
      { name: 'bare Nest + Express', url: nest, method: 'POST' },
      { name: 'Nest + Express + passport-headerapikey', url: guarded, method: 'POST', headers: { 'X-API-Key': 'a:b' } },
      ...(await hotRoutes(service)),
    ];
    return { contestants, database, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function hotRoutes(service) {
  const admin = { 'X-Admin-Key': ADMIN_API_KEY };
  const household = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
  const node = await post(`${service}/api/v0/admin/nodes`, household, admin);
  const app = await post(`${service}/api/v0/admin/app-credentials`, { caller: 'ocr', target: 'auth' }, admin);
  const user = await post(`${service}/api/v0/auth/register`, PERSON);
  const { access_token } = await post(`${service}/api/v0/auth/login`, PERSON);
  const json = { 'Content-Type': 'application/json' };
  return [
    {
      name: 'validate-node',
      url: `${service}/internal/validate-node`,
      method: 'POST',
      headers: { 'X-API-Key': `${node.node_id}:${node.api_key}` },
    },
    {
      name: 'validate-app',
      url: `${service}/internal/validate-app`,
      method: 'POST',
      headers: { 'X-Platform-App-Id': app.app_id, 'X-Platform-App-Key': app.app_key },
    },
    {
      name: 'users/{id} (bearer)',
      url: `${service}/api/v0/users/${user.id}`,
      headers: { Authorization: `Bearer ${access_token}` },
    },
    refreshing(service, json),
    {
      name: 'login (bcrypt, cost 12)',
      url: `${service}/api/v0/auth/login`,
      method: 'POST',
      connections: 2 * availableParallelism(),
      headers: json,
      body: JSON.stringify(PERSON),
    },
    { name: 'health/live', url: `${service}/health/live` },
  ];
}

/** Each connection rotates a session of its own: it presents what it was given last. */
function refreshing(service, headers) {
  let bodies = [];
  const bodyOf = ({ refresh_token }) => JSON.stringify({ refresh_token });
  const logIn = () => post(`${service}/api/v0/auth/login`, PERSON);
  return {
    name: 'refresh',
    url: `${service}/api/v0/auth/refresh`,
    method: 'POST',
    headers,
    // The last answers of a measurement are lost, and with them, after the grace, their sessions.
    prepare: async () => {
      bodies = (await Promise.all(Array.from({ length: CONNECTIONS }, logIn))).map(bodyOf);
    },
    setupClient: (client) => {
      client.setBody(bodies.pop());
      client.on('body', (answer) => client.setBody(bodyOf(JSON.parse(answer.toString()))));
    },
  };
}

async function start(children, [script, ...words], variables = () => ({})) {
  const port = await freePort();
  const env = { PATH: process.env.PATH, ...variables(port) };
  // The log goes into a pipe that is read, as it would be in production.
  const child = spawn(process.execPath, [script, ...words, String(port)], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  child.stdout.resume();
  children.push(child);
  const url = `http://127.0.0.1:${port}`;
  for (let waited = 0; waited < START_MS; waited += 100) {
    if (await fetch(url).then(Boolean, () => false)) return url;
    await sleep(100);
  }
  throw new Error(`${script} ${words.join(' ')} did not start`);
}

async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  return answer.json();
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => probe.once('listening', listening));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  return port;
}
