// Opens /docs in a real browser under the content security policy that ships, authorises every door there, and makes
// a call through each, as prefilled, in a wide or in a narrow window. The answer fits into both.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { readJson } from '../../tools/api-client.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import { checks, launchBrowser, takesPictures } from './browser.js';
import { makeCredentials, startFirstRun, type Credentials, type FirstRun } from './service.js';

const TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 60_000;
const WIDE = { width: 1280, height: 1600 };
/** A phone. */
const NARROW = { width: 390, height: 844 };

interface Call {
  readonly door: string;
  readonly schemes: readonly (keyof Credentials)[];
  readonly method: string;
  readonly path: string;
  /** 200 unless given. */
  readonly status?: number;
  /** Whether the page is loaded again before the call: a bearer and keys are kept alike, whatever the door. */
  readonly staysOpen?: boolean;
  /** Of a door that another call goes through as well. Swagger UI takes seconds of CPU to show one more operation. */
  readonly isNightly?: boolean;
}

/** Needs no credential, and makes the account that the others use. */
const REGISTER: Call = { door: 'no', schemes: [], method: 'post', path: '/api/v0/auth/register', status: 201 };

/** What a developer tries on the page, each with only its own door open. */
const CALLS: readonly Call[] = [
  { door: 'user', schemes: ['user'], method: 'get', path: '/api/v0/users/me', staysOpen: true },
  { door: 'app', schemes: ['app_id', 'app_key'], method: 'post', path: '/internal/validate-app', staysOpen: true },
  { door: 'node', schemes: ['node'], method: 'post', path: '/internal/validate-node' },
  { door: 'admin', schemes: ['admin'], method: 'get', path: '/api/v0/admin/nodes' },
  { door: 'admin', schemes: ['admin'], method: 'post', path: '/api/v0/admin/nodes', status: 201, isNightly: true },
  { door: 'no', schemes: [], method: 'post', path: '/api/v0/auth/login', isNightly: true },
  { door: 'no', schemes: [], method: 'get', path: '/health', isNightly: true },
];

const documentSchema = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) });
const PICTURES = join(tmpdir(), 'platform-auth-docs-page');
const complaints: string[] = [];

/** Collects all complaints of the page and the browser: script errors, the content security policy, requests, answers. */
function listen(page: Page, url: string): void {
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => void complaints.push(error.message));
  page.on('requestfailed', (request) => {
    const failure = request.failure()?.errorText ?? 'for an unknown reason';
    // The browser cancels what it still loads when it leaves the page.
    if (failure !== 'net::ERR_ABORTED') complaints.push(`${request.url()} failed: ${failure}`);
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith('data:')) complaints.push(`asked ${request.url()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400) complaints.push(`${response.url()} answered ${response.status()}`);
  });
}

function schemeForm(page: Page, scheme: string): Locator {
  return page.locator('.auth-container', { has: page.locator('h4', { hasText: new RegExp(`^${scheme}\\s`) }) });
}

/** The dialog opens at its top, and hides what is typed into it. */
async function checkDialog(page: Page): Promise<void> {
  await page.locator('.btn.authorize').first().click();
  await page.waitForSelector('.auth-container input');
  const types = await page.evaluate<string[]>(
    `[...document.querySelectorAll('.auth-container input')].map(({ type }) => type)`,
  );
  checks.note('the dialog hides keys', types.length > 0 && types.every((type) => type === 'password'), types.join());
  const scrolled = await page.evaluate<number>(`document.querySelector('.modal-ux-content').scrollTop`);
  checks.note('the dialog opens at its top', scrolled === 0, scrolled);
  await page.click('.close-modal');
}

/** Opens or closes exactly one door in the dialog. */
async function turnDoor(page: Page, { door, schemes }: Call, values: Credentials, isOpening: boolean): Promise<void> {
  if (schemes.length === 0) return;
  await page.locator('.btn.authorize').first().click();
  for (const scheme of schemes) {
    const form = schemeForm(page, scheme);
    if (isOpening) await form.locator('input').fill(values[scheme]);
    await form.locator('button', { hasText: isOpening ? 'Authorize' : 'Logout' }).click();
    await form.locator('button', { hasText: isOpening ? 'Logout' : 'Authorize' }).waitFor({ timeout: TIMEOUT_MS });
    if (isOpening) checks.note(`the dialog takes ${scheme}`, true);
  }
  if (isOpening && takesPictures) await page.screenshot({ path: join(PICTURES, `dialog-${door}.png`) });
  await page.click('.btn-done');
}

/** Opens a door, calls through it and closes it. */
async function tryDoor(page: Page, call: Call, values: Credentials): Promise<void> {
  await turnDoor(page, call, values, true);
  if (call.staysOpen) {
    await page.reload();
    await page.waitForSelector('.opblock');
  }
  await tryOut(page, call);
  await turnDoor(page, call, values, false);
}

async function tryOut(page: Page, { door, method, path, status: expected = 200 }: Call): Promise<void> {
  const block = page.locator(`.opblock-${method}`, { has: page.locator(`[data-path="${path}"]`) });
  await block.locator('.opblock-summary-control').click();
  await block.locator('button.execute').click();
  const status = block.locator('.live-responses-table tbody .response-col_status').first();
  await status.waitFor({ timeout: TIMEOUT_MS });
  const text = await status.innerText();
  const name = `${method.toUpperCase()} ${path} answers ${expected} as prefilled, through ${door} door`;
  checks.note(name, text.trim().startsWith(String(expected)), text);
  await fitInto(page, block, door);
  await block.locator('button.btn-clear').click();
  await status.waitFor({ state: 'detached' });
  await block.locator('.opblock-summary-control').click();
}

/** Checks that the page with an answer fits into both windows. It stays in the other one, so that the next call is made there. */
async function fitInto(page: Page, block: Locator, door: string): Promise<void> {
  const isWide = page.viewportSize()?.width === WIDE.width;
  for (const size of isWide ? [WIDE, NARROW] : [NARROW, WIDE]) {
    await page.setViewportSize(size);
    const [width = 0, visible = 0] = await page.evaluate<number[]>(
      '[document.documentElement.scrollWidth, innerWidth]',
    );
    checks.note(`it fits into ${visible} pixels`, width <= visible && visible === size.width, width);
    if (takesPictures) await block.screenshot({ path: join(PICTURES, `answer-${door}-${visible}.png`) });
  }
}

/** The number of operations in the document; the page must show each. */
async function countOperations(url: string): Promise<number> {
  const { paths } = await readJson(`${url}/docs-json`, documentSchema);
  return Object.values(paths).flatMap((item) => Object.keys(item)).length;
}

async function visit(page: Page, service: FirstRun): Promise<void> {
  const { url } = service.server;
  page.setDefaultTimeout(TIMEOUT_MS);
  listen(page, url);
  const answer = await page.goto(`${url}/docs`);
  const policy = (await answer?.allHeaders())?.['content-security-policy'] ?? '';
  checks.note('the content security policy allows no inline script', /script-src 'self'(;|$)/.test(policy), policy);
  await page.waitForSelector('.opblock');
  const shown = await page.locator('.opblock').count();
  checks.note('every operation is on the page', shown === (await countOperations(url)), shown);
  checks.note('the schemas are folded', (await page.locator('.models.is-open').count()) === 0);
  if (takesPictures) await page.screenshot({ path: join(PICTURES, 'page.png'), fullPage: true });
  await checkDialog(page);
  await tryOut(page, REGISTER);
  const values = await makeCredentials(service);
  for (const call of CALLS) {
    if (call.isNightly && !IS_NIGHTLY) console.log(`  Only by night: ${call.method.toUpperCase()} ${call.path}`);
    else await tryDoor(page, call, values);
  }
  checks.note('nothing complains', complaints.length === 0, complaints.join('\n  '));
}

export async function checkDocsPage(cleanup: Cleanup): Promise<void> {
  if (takesPictures) console.log(`Pictures: ${PICTURES}`);
  const service = await startFirstRun(cleanup);
  const browser = await launchBrowser(cleanup);
  await visit(await browser.newPage({ viewport: WIDE }), service);
  await browser.close();
  const code = await Promise.race([service.server.stop(), sleep(STOP_TIMEOUT_MS, 'too slow', { ref: false })]);
  checks.note('the service stops cleanly', code === 0, String(code));
}
