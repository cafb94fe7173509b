// Opens /docs in a real browser under the content security policy that ships, authorises every door there, and makes
// a call through each. Prints what was checked; the last line counts it.
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { makeCredentials, startService } from './service.js';

const WAIT_MS = 15_000;
const BROWSERS = ['chromium', 'chromium-browser', 'google-chrome'].map((name) => `/usr/bin/${name}`);
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** What somebody tries on the page, by the doors that are open when they try it. */
const CALLS = [
  { door: 'user', schemes: ['user'], method: 'get', path: '/api/v0/users/me' },
  { door: 'app', schemes: ['app_id', 'app_key'], method: 'post', path: '/internal/validate-app' },
  { door: 'node', schemes: ['node'], method: 'post', path: '/internal/validate-node' },
  { door: 'admin', schemes: ['admin'], method: 'get', path: '/api/v0/admin/nodes' },
  { door: 'no', schemes: [], method: 'get', path: '/health' },
];

const screenshots = mkdtempSync(join(tmpdir(), 'platform-auth-screenshots-'));
const complaints = [];
let passed = 0;
let failed = 0;

function check(name, isTrue, said = '') {
  if (isTrue) passed += 1;
  else failed += 1;
  console.log(isTrue ? `✓ ${name}` : `✗ ${name} ${said}`);
}

/** Whatever the page or the browser complains of: script errors, the content security policy, requests, answers. */
function listen(page, url) {
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('requestfailed', (request) => complaints.push(`${request.url()} failed: ${request.failure()?.errorText}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(`asked ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) complaints.push(`${response.url()} answered ${response.status()}`);
  });
}

function schemeForm(page, scheme) {
  return page.locator('.auth-container', { has: page.locator('h4', { hasText: new RegExp(`^${scheme}\\s`) }) });
}

/** Opens exactly one door in the dialog, and closes it again afterwards. */
async function withDoor(page, { door, schemes }, values, use) {
  for (const isOpening of [true, false]) {
    if (schemes.length > 0) await page.locator('.btn.authorize').first().click();
    for (const scheme of schemes) {
      const form = schemeForm(page, scheme);
      if (isOpening) await form.locator('input').fill(values[scheme]);
      await form.locator('button', { hasText: isOpening ? 'Authorize' : 'Logout' }).click();
      await form.locator('button', { hasText: isOpening ? 'Logout' : 'Authorize' }).waitFor({ timeout: WAIT_MS });
      if (isOpening) check(`the dialog takes ${scheme}`, true);
    }
    if (schemes.length > 0 && isOpening) await page.screenshot({ path: join(screenshots, `dialog-${door}.png`) });
    if (schemes.length > 0) await page.click('.btn-done');
    if (isOpening) await use();
  }
}

async function tryOut(page, { door, method, path }) {
  const block = page.locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) });
  await block.locator('.opblock-summary-control').click();
  await block.locator('button.execute').click();
  const status = block.locator('.live-responses-table tbody .response-col_status').first();
  await status.waitFor({ timeout: WAIT_MS });
  const said = await status.innerText();
  check(`${method.toUpperCase()} ${path} answers 200 through ${door} door`, /^\s*200/.test(said), said);
  await block.screenshot({ path: join(screenshots, `answer-${door}.png`) });
  await block.locator('.opblock-summary-control').click();
}

/** The document says how many operations there are; the page must show each. */
async function countOperations(url) {
  const { paths } = await (await fetch(`${url}/docs-json`)).json();
  return Object.values(paths).flatMap((item) => Object.keys(item)).length;
}

async function visit(service) {
  const executablePath = process.env.CHROMIUM_PATH ?? BROWSERS.find(existsSync);
  const browser = await chromium.launch({ executablePath, args: FLAGS, timeout: 60_000 });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 1600 } });
    page.setDefaultTimeout(WAIT_MS);
    listen(page, service.url);
    const answer = await page.goto(`${service.url}/docs`);
    const policy = (await answer.allHeaders())['content-security-policy'] ?? '';
    check('the content security policy allows no inline script', /script-src 'self'(;|$)/.test(policy), policy);
    await page.waitForSelector('.opblock');
    const shown = await page.locator('.opblock').count();
    check('every operation is on the page', shown === (await countOperations(service.url)), shown);
    await page.screenshot({ path: join(screenshots, 'page.png'), fullPage: true });
    const values = await makeCredentials(service);
    for (const call of CALLS) await withDoor(page, call, values, () => tryOut(page, call));
    check('nothing complains', complaints.length === 0, complaints.join('\n  '));
  } finally {
    await browser.close();
  }
}

let service;
try {
  service = await startService();
  await visit(service);
} catch (error) {
  console.error(error);
  failed += 1;
}
if (service) check('the service stops cleanly', (await service.stop()) === 0);
console.log(`Screenshots: ${screenshots}`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
