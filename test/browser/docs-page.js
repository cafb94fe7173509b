// Opens /docs in a real browser under the content security policy that ships, authorises every door there, and makes
// a call through each. Prints what was checked; the last line counts it.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const START_MS = 60_000;
const folder = mkdtempSync(join(tmpdir(), 'platform-auth-browser-'));
const complaints = [];
let passed = 0;
let failed = 0;

function check(name, isTrue, said = '') {
  if (isTrue) passed += 1;
  else failed += 1;
  console.log(isTrue ? `✓ ${name}` : `✗ ${name} ${said}`);
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => probe.once('listening', listening));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  return port;
}

async function startService() {
  const port = await freePort();
  const main = new URL('../../dist/src/main.js', import.meta.url).pathname;
  const env = { PATH: process.env.PATH, PORT: String(port), BCRYPT_COST: '4' };
  const child = spawn(process.execPath, [main], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  for (let waited = 0; waited < START_MS; waited += 100) {
    const isReady = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return { url, child };
    await sleep(100);
  }
  child.kill('SIGKILL');
  throw new Error('The service did not start');
}

async function post(url, body, headers = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return answer.json();
}

/** Makes one credential for each door. */
async function credentials(url) {
  const admin = /^ADMIN_API_KEY=(.+)$/m.exec(readFileSync(join(folder, '.env'), 'utf8'))[1];
  const asAdmin = { 'X-Admin-Key': admin };
  const person = { email: 'alice@example.org', password: 'correct horse battery' };
  await post(`${url}/api/v0/auth/register`, person);
  const tokens = await post(`${url}/api/v0/auth/login`, person);
  const app = await post(`${url}/api/v0/admin/app-credentials`, { caller: 'ocr', target: 'auth' }, asAdmin);
  const household = { household_id: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10', room: 'hall', name: 'lamp' };
  const node = await post(`${url}/api/v0/admin/nodes`, household, asAdmin);
  return {
    user: tokens.access_token,
    app_id: app.app_id,
    app_key: app.app_key,
    node: `${node.node_id}:${node.api_key}`,
    admin,
  };
}

async function authorise(page, values) {
  await page.click('.btn.authorize');
  for (const [door, value] of Object.entries(values)) {
    const form = page.locator('.auth-container', { has: page.locator('h4', { hasText: new RegExp(`^${door}\\s`) }) });
    await form.locator('input').fill(value);
    await form.locator('button.authorize').click();
    check(`the ${door} scheme can be authorised`, await form.locator('button', { hasText: 'Logout' }).isVisible());
  }
  await page.screenshot({ path: join(folder, 'authorised.png') });
  await page.click('.btn-done');
}

async function tryOut(page, method, path) {
  const block = page.locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) });
  await block.locator('.opblock-summary-control').click();
  await block.locator('button.execute').click();
  const status = block.locator('.live-responses-table tbody .response-col_status').first();
  await status.waitFor({ timeout: 10_000 });
  const said = await status.innerText();
  check(`${method.toUpperCase()} ${path} answers 200 from the page`, /^\s*200/.test(said), said);
  await block.locator('.opblock-summary-control').click();
}

async function visit(url) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1600 } });
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('requestfailed', (request) => complaints.push(`${request.url()} failed`));
    await page.goto(`${url}/docs`);
    await page.waitForSelector('.opblock');
    check('every route is on the page', (await page.locator('.opblock').count()) >= 28);
    await page.screenshot({ path: join(folder, 'docs.png'), fullPage: true });
    await authorise(page, await credentials(url));
    await tryOut(page, 'get', '/api/v0/users/me');
    await tryOut(page, 'post', '/internal/validate-node');
    await tryOut(page, 'get', '/api/v0/admin/nodes');
    await tryOut(page, 'get', '/health');
    await page.screenshot({ path: join(folder, 'answers.png'), fullPage: true });
    check(`the console stays silent ${complaints.join('; ')}`, complaints.length === 0);
  } finally {
    await browser.close();
  }
}

const service = await startService();
try {
  await visit(service.url);
} catch (error) {
  console.error(error);
  failed += 1;
} finally {
  service.child.kill('SIGTERM');
  await new Promise((exited) => service.child.once('exit', exited));
}
console.log(`Screenshots: ${folder}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
