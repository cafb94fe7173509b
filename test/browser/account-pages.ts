// The pages of examples/account-pages in a real browser, at an origin of their own and at that of the service: what a user does
// there, what the pages say when it fails, and where tokens must not be.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret, TOTP } from 'otpauth';
import type { BrowserContext, Page } from 'playwright-core';
import { ApiClient, type Person } from '../../tools/api-client.js';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { eventually } from '../../tools/eventually.js';
import { isResponding, ServerProcess } from '../../tools/server-process.js';
import { checks, expectText, launchBrowser, takesPictures } from './browser.js';
import { AUTHENTICATOR } from './passkeys.js';
import { startFirstRun, type FirstRun } from './service.js';

const TIMEOUT_MS = 20_000;
const TOTP_STEP_MS = 30_000;
const PAGES_SCRIPT = join(import.meta.dirname, '../../examples/account-pages/serve.js');
const FOLDER = join(import.meta.dirname, '../../../examples/account-pages');
const SIZES = [
  { width: 1280, height: 900 },
  { width: 360, height: 740 },
];
const alice = { email: 'alice@example.org', password: 'correct horse battery' };
const bob = { email: 'bob@example.org', password: 'correct horse battery' };
const carol = { email: 'carol@example.org', password: 'correct horse battery' };

const PICTURES = join(tmpdir(), 'platform-auth-account-pages');
/** Of the pages about themselves: violations of their policy, errors of their scripts, tokens in addresses. */
const complaints: string[] = [];
/** Of the mails that the service prints. */
const links: string[] = [];

function takeLink(line: string): void {
  const [link] = /http\S+#token=\S+/.exec(line) ?? [];
  if (link) links.push(link);
}

async function nextLink(): Promise<string> {
  await eventually('a mail with a link was printed', () => links.length > 0);
  return links.shift() ?? '';
}

async function openPage(context: BrowserContext): Promise<Page> {
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on('pageerror', (error) => void complaints.push(error.message));
  page.on('console', (message) => {
    // Chromium reports each answer with an error status as well.
    const isFailedAnswer = message.text().startsWith('Failed to load resource');
    if (['error', 'warning'].includes(message.type()) && !isFailedAnswer) complaints.push(message.text());
  });
  page.on('request', (request) => {
    const { referer = '' } = request.headers();
    if (/pa_(reset|email)_/.test(request.url()) || referer !== '') complaints.push(`${request.url()} from ${referer}`);
  });
  return page;
}

const press = (page: Page, name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();

/** Fills fields by their labels, which a screen reader reads out too, and submits them with the keyboard. */
async function submit(page: Page, fields: Readonly<Record<string, string>>): Promise<void> {
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value);
  await page.keyboard.press('Enter');
}

const logIn = (page: Page, { email, password }: Person): Promise<void> =>
  submit(page, { 'E-mail address': email, Password: password });

/** In both colour schemes. */
async function takePictures(page: Page, name: string): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`), fullPage: true });
  }
}

/** At both widths. */
async function look(page: Page, name: string): Promise<void> {
  for (const viewport of SIZES) {
    await page.setViewportSize(viewport);
    if (takesPictures) await takePictures(page, `${name}-${viewport.width}`);
    const width = await page.evaluate<number>(
      `Math.max(...[...document.querySelectorAll('html, dialog')].map(({ scrollWidth }) => scrollWidth))`,
    );
    checks.note(`${name} fits into ${viewport.width} pixels`, width <= viewport.width, width);
  }
  const unnamed = await page.evaluate<number>(
    `[...document.querySelectorAll('input')].filter(({ labels }) => labels.length === 0).length`,
  );
  checks.note(`each field of ${name} has a label`, unnamed === 0, unnamed);
}

/** Opens the link of a mail. No address, of the page or of the history, has its token afterwards. */
async function followLink(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await page.getByRole('button').filter({ visible: true }).first().waitFor();
  const session = await page.context().newCDPSession(page);
  const { entries } = await session.send('Page.getNavigationHistory');
  const urls = [page.url(), ...entries.map(({ url }) => url)];
  checks.note('the token leaves the address bar and the history', !urls.join().includes('token'), urls.join());
}

async function verifyAddress(page: Page, origin: string): Promise<void> {
  await page.goto(`${origin}/verify-email.html`);
  await submit(page, { 'E-mail address': alice.email });
  await expectText(page, 'verify-email.html asks for a link', /a link is on its way/);
  const link = await nextLink();
  await followLink(page, link);
  await look(page, 'verify-email');
  await press(page, 'Confirm this address');
  await expectText(page, 'the address is confirmed after a click', 'Your address is confirmed.');
  await followLink(page, link);
  await press(page, 'Confirm this address');
  await expectText(page, 'a used link is explained', /This link does not work any more/);
}

async function logInWithPassword(page: Page, origin: string): Promise<void> {
  await page.goto(`${origin}/login.html`);
  await look(page, 'login');
  await logIn(page, { ...alice, password: 'wrong' });
  await expectText(page, 'a wrong password is explained', 'The e-mail address or the password is wrong.');
  await logIn(page, alice);
  await expectText(page, 'the right one opens the profile', alice.email);
}

async function manageAccount(page: Page, client: ApiClient): Promise<void> {
  await Promise.all([client.logIn(alice), client.logIn(alice)]);
  await page.reload();
  const ends = page.getByRole('button', { name: /^End: / });
  await ends.nth(1).waitFor();
  await look(page, 'profile');
  await ends.first().click();
  await eventually('one session is gone', async () => (await ends.count()) === 1);
  await press(page, 'End all other sessions');
  await eventually('all other sessions are gone', async () => (await ends.count()) === 0);
  checks.note('sessions are listed and ended', true);
  await press(page, 'Change the password');
  const next = 'a longer passphrase';
  await submit(page, { 'Current password': 'wrong', 'New password': next });
  await expectText(page, 'a wrong current password is explained', 'The password is wrong.');
  await submit(page, { 'Current password': alice.password, 'New password': 'password' });
  await expectText(page, 'a common new password is explained', /^The new password is one of the most common/);
  await submit(page, { 'Current password': alice.password, 'New password': next });
  await expectText(page, 'the password is changed', 'Done.');
  alice.password = next;
}

/** The next codes are accepted too, and each step only once: so no login waits for one. */
function computeCode(secret: string, step: -1 | 0 | 1): string {
  return new TOTP({ secret: Secret.fromBase32(secret) }).generate({ timestamp: Date.now() + step * TOTP_STEP_MS });
}

interface Factors {
  readonly secret: string;
  readonly codes: readonly string[];
}

async function enrolFactors(page: Page): Promise<Factors> {
  await press(page, 'Add an authenticator app');
  await submit(page, { Password: alice.password });
  const [, secret = ''] = /: (\w+)$/.exec(await page.getByText('Or type this secret').innerText()) ?? [];
  await look(page, 'profile-secret');
  await submit(page, { Code: '000000' });
  await expectText(page, 'a wrong code is explained', 'The code is wrong or was used before.');
  await submit(page, { Code: computeCode(secret, -1) });
  await expectText(page, 'the app is added', 'Save them now');
  const codes = await page.locator('#codes li').allInnerTexts();
  checks.note('ten recovery codes are shown', codes.length === 10, codes.length);
  await look(page, 'profile-codes');
  await page.reload();
  await press(page, 'Add a passkey');
  await submit(page, { Password: alice.password });
  await expectText(page, 'a fresh code is asked for', /^Type a code of your app/);
  await submit(page, { Code: codes[9] ?? '' });
  await submit(page, { 'Name of the passkey': 'phone' });
  await expectText(page, 'a passkey is added', 'Passkey: phone');
  checks.note('the codes are shown once', !(await page.getByText('Save them now').isVisible()));
  return { secret, codes };
}

async function changeAddress(page: Page, { codes }: Factors): Promise<void> {
  const next = 'alice@example.net';
  await press(page, 'Change the e-mail address');
  await submit(page, { 'New e-mail address': next, Password: alice.password });
  await submit(page, { Code: codes[8] ?? '' });
  await expectText(page, 'a change of address is asked for', /^Open the link/);
  // The service sends both kinds of links to one page; both pages confirm both.
  await followLink(page, (await nextLink()).replace('verify-email', 'change-email'));
  await look(page, 'change-email');
  await press(page, 'Use the new address');
  await expectText(page, 'the new address is confirmed', /^From now on/);
  await page.getByRole('link', { name: 'Your account' }).click();
  await expectText(page, 'the profile shows it', next);
  alice.email = next;
}

async function logOut(page: Page): Promise<void> {
  await press(page, 'Log out');
  await page.waitForURL('**/login.html');
  const stored = await page.evaluate<number>('sessionStorage.length');
  checks.note('after the logout the browser has no token', stored === 0, stored);
}

async function logInWithFactors(page: Page, { secret, codes }: Factors): Promise<void> {
  const [code = '', anotherCode = ''] = codes;
  await logOut(page);
  await logIn(page, alice);
  await expectText(page, 'a login asks for a factor', 'Confirm your login with');
  await look(page, 'login-factor');
  await submit(page, { Code: '000000' });
  await expectText(page, 'a wrong code of a login is explained', /^This is wrong, was used/);
  await submit(page, { Code: computeCode(secret, 0) });
  await expectText(page, 'a code of the app logs in', alice.email);
  await logOut(page);
  await logIn(page, alice);
  await page.getByLabel('a recovery code').check();
  await submit(page, { Code: code });
  await expectText(page, 'a recovery code logs in', /7 recovery codes/);
  await logOut(page);
  await logIn(page, alice);
  await page.getByLabel('a passkey').check();
  await press(page, 'Confirm');
  await expectText(page, 'a passkey is a second factor', alice.email);
  await logOut(page);
  await press(page, 'Log in with a passkey');
  await expectText(page, 'a passkey alone logs in', alice.email);
  await press(page, 'Remove the authenticator app');
  await submit(page, { Password: alice.password, Code: anotherCode });
  await expectText(page, 'the app is removed', 'Done.');
  await press(page, 'Remove: Passkey: phone');
  await submit(page, { Password: alice.password });
  await expectText(page, 'the passkey is removed', 'Done.');
}

/** As if the tokens had expired. */
async function spoil(page: Page, ...names: readonly string[]): Promise<void> {
  const spoiled = JSON.stringify(Object.fromEntries(names.map((name) => [name, 'expired'])));
  await page.evaluate(`sessionStorage.setItem('platform-auth',
    JSON.stringify({ ...JSON.parse(sessionStorage.getItem('platform-auth')), ...${spoiled} }))`);
}

async function outliveTokens(page: Page): Promise<void> {
  await spoil(page, 'access_token');
  await page.reload();
  await expectText(page, 'an expired access token is refreshed', alice.email);
  await spoil(page, 'access_token', 'refresh_token');
  await page.reload();
  await page.waitForURL('**/login.html');
  checks.note('an ended session leads to the login', true);
}

async function resetPassword(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await submit(page, { 'E-mail address': alice.email });
  await expectText(page, 'reset-password.html asks for a link', /a link is on its way/);
  const link = await nextLink();
  await followLink(page, link);
  await look(page, 'reset-password');
  await submit(page, { 'New password': 'password' });
  await expectText(page, 'a common password is explained', /^The new password is one of the most common/);
  alice.password = 'an even longer passphrase';
  await submit(page, { 'New password': alice.password });
  await expectText(page, 'the password is set', 'The password is set.');
  await followLink(page, link);
  await submit(page, { 'New password': alice.password });
  await expectText(page, 'a used link is explained', /^This link does not work any more/);
  await page.getByRole('link', { name: 'Send me a new link' }).click();
  await expectText(page, 'and a new one is offered', /^We send you a link/);
}

async function deleteAccount(page: Page, origin: string, client: ApiClient): Promise<void> {
  await page.goto(`${origin}/login.html`);
  await logIn(page, alice);
  await press(page, 'Delete the account for good');
  await submit(page, { Password: alice.password });
  await page.waitForURL('**/login.html');
  await logIn(page, alice);
  await expectText(page, 'a deleted account logs in no more', /password is wrong/);
  for (const guess of ['one', 'two', 'three']) await client.logIn({ ...bob, password: guess }).catch(() => undefined);
  await logIn(page, bob);
  await expectText(page, 'a throttled login names the wait', 'Too many tries. Wait 15 minutes, then try again.');
}

/** Opens the login at the origin of the service, where a page is used as it is, byte for byte. */
async function openAtSameOrigin(page: Page, { server }: FirstRun): Promise<void> {
  await page.route(`${server.url}/pages/*`, (route) =>
    route.fulfill({ path: join(FOLDER, new URL(route.request().url()).pathname.replace('/pages/', '')) }),
  );
  await page.goto(`${server.url}/pages/login.html`);
}

async function failAtSameOrigin(page: Page, service: FirstRun): Promise<void> {
  const { server } = service;
  await openAtSameOrigin(page, service);
  const logins = '**/auth/login';
  const problem = { status: 503, headers: { 'Retry-After': '5' }, json: { code: 'unavailable' } };
  await page.route(logins, (route) => route.fulfill(problem), { times: 1 });
  await logIn(page, carol);
  await expectText(page, 'a 503 is no verdict', /cannot answer at the moment. Try again in 5 seconds/);
  await page.route(logins, (route) => route.fulfill({ status: 502, body: '<h1>Bad gateway</h1>' }), { times: 1 });
  await logIn(page, carol);
  await expectText(page, 'nor is an error of a proxy', /cannot answer at the moment. Try again in 60 seconds/);
  await logIn(page, carol);
  await expectText(page, 'the pages work as they are at the origin of the service', carol.email);
  await server.stop();
  await press(page, 'Log out');
  await expectText(page, 'an unreachable service is named', /cannot be reached/);
}

/** At a service that demands a second factor, of an account that has none. */
async function enrolAtLogin(page: Page, cleanup: Cleanup): Promise<void> {
  const service = await startFirstRun(cleanup, { SECOND_FACTOR_REQUIRED: 'true' });
  await new ApiClient(service.server.url, service.adminKey).register(carol);
  await openAtSameOrigin(page, service);
  await logIn(page, carol);
  const text = await page.getByText('Or type this secret').innerText();
  const [, secret = ''] = /: (\w+)$/.exec(text) ?? [];
  await look(page, 'login-enrolment');
  await submit(page, { 'Code of the app': '000000' });
  await expectText(page, 'a wrong code of an enrolment is explained', /^This is wrong, was used/);
  await submit(page, { 'Code of the app': computeCode(secret, -1) });
  await expectText(page, 'a login that demands a factor adds the app', 'Save them now');
  const codes = await page.locator('#codes li').allInnerTexts();
  checks.note('it shows ten recovery codes', codes.length === 10, codes.length);
  await look(page, 'login-codes');
  await press(page, 'I saved them: log in');
  checks.note('the codes are gone from the page', (await page.locator('#codes li').count()) === 0);
  await logIn(page, carol);
  await submit(page, { Code: computeCode(secret, 0) });
  await expectText(page, 'and the next login takes a code of the app', carol.email);
  await service.server.stop();
}

async function servePages(cleanup: Cleanup): Promise<{ origin: string; service: FirstRun }> {
  const port = await claimPort();
  const origin = `http://localhost:${port}`;
  const variables = {
    PASSWORD_RESET_URL: `${origin}/reset-password.html`,
    EMAIL_VERIFICATION_URL: `${origin}/verify-email.html`,
    WEBAUTHN_RP_ID: 'localhost',
    WEBAUTHN_ORIGINS: origin,
    CORS_ORIGINS: origin,
    LOGIN_LIMIT_PER_ACCOUNT_AND_ADDRESS: '3/900',
    REVOCATION_LEASE_MS: '0',
  };
  const service = await startFirstRun(cleanup, variables, { onLine: takeLink });
  const words = ['--port', String(port), '--service', service.server.url];
  const options = { cleanup, script: PAGES_SCRIPT, words, isReady: isResponding, onLine: () => undefined };
  await new ServerProcess(port, options).start();
  return { origin, service };
}

export async function checkAccountPages(cleanup: Cleanup): Promise<void> {
  if (takesPictures) console.log(`Pictures: ${PICTURES}`);
  const { origin, service } = await servePages(cleanup);
  const client = new ApiClient(service.server.url, service.adminKey);
  for (const person of [alice, bob, carol]) await client.register(person);
  const browser = await launchBrowser(cleanup);
  const page = await openPage(await browser.newContext());
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  await session.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR });
  await verifyAddress(page, origin);
  await logInWithPassword(page, origin);
  await manageAccount(page, client);
  const factors = await enrolFactors(page);
  await changeAddress(page, factors);
  await logInWithFactors(page, factors);
  await outliveTokens(page);
  await resetPassword(page);
  await deleteAccount(page, origin, client);
  await failAtSameOrigin(await openPage(await browser.newContext()), service);
  await enrolAtLogin(await openPage(await browser.newContext()), cleanup);
  checks.note(
    'no page breaks its policy, throws, or sends a token in an address',
    complaints.length === 0,
    complaints.join('\n  '),
  );
  await browser.close();
}
