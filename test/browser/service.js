// The built service, on a free port, in a folder of its own with a database of its own: a first run.
import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../dist/src/embedded-postgres/free-port.js';

const START_MS = 60_000;
const STOP_MS = 20_000;
const POLL_MS = 100;
const MAIN = new URL('../../dist/src/main.js', import.meta.url).pathname;

/** @returns the URL, the admin key that the first run made, and how to stop and remove it all */
export async function startService() {
  const folder = mkdtempSync(join(tmpdir(), 'platform-auth-browser-'));
  // So that the embedded server may live in it also when root starts it.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, PORT: String(port), BCRYPT_COST: '4' };
  const child = spawn(process.execPath, [MAIN], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const url = `http://127.0.0.1:${port}`;
  const stop = async () => {
    child.kill('SIGTERM');
    const code = await Promise.race([exited, sleep(STOP_MS, 'too slow', { ref: false })]);
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
    return code;
  };
  for (let waited = 0; waited < START_MS && child.exitCode === null; waited += POLL_MS) {
    if (await isReady(url)) return { url, stop, adminKey: adminKeyOf(folder) };
    await sleep(POLL_MS);
  }
  await stop();
  throw new Error('The service did not start');
}

/** Registers and logs in a user, mints an app credential and registers a node. */
export async function makeCredentials({ url, adminKey }) {
  const asAdmin = { 'X-Admin-Key': adminKey };
  const person = { email: 'alice@example.org', password: 'correct horse battery' };
  await post(`${url}/api/v0/auth/register`, person);
  const tokens = await post(`${url}/api/v0/auth/login`, person);
  // The target that the page's example of a body names.
  const pair = { caller: 'command-orchestration', target: 'speech-to-text' };
  const app = await post(`${url}/api/v0/admin/app-credentials`, pair, asAdmin);
  const device = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
  const node = await post(`${url}/api/v0/admin/nodes`, device, asAdmin);
  return {
    user: tokens.access_token,
    app_id: app.app_id,
    app_key: app.app_key,
    node: `${node.node_id}:${node.api_key}`,
    admin: adminKey,
  };
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

async function isReady(url) {
  try {
    return (await fetch(`${url}/health`)).ok;
  } catch {
    return false;
  }
}

function adminKeyOf(folder) {
  return /^ADMIN_API_KEY=(.+)$/m.exec(readFileSync(join(folder, '.env'), 'utf8'))[1];
}
