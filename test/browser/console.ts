// The console in a real browser: the life of a key, a node, a user and an operator through its pages, with JavaScript and
// without; accessibility, widths and the policy of each page. With SCREENSHOTS=yes it renews the pictures of docs/console/.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { ApiClient } from '../../tools/api-client.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import { checks, expectText, launchBrowser, takesPictures } from './browser.js';
import { AUTHENTICATOR } from './passkeys.js';
import { startFirstRun } from './service.js';

const TIMEOUT_MS = 20_000;
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const PICTURES = join(import.meta.dirname, '../../../docs/console');
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Of which the documentation has a picture. Together the pictures have at most 300 KB (test/docs/pages.spec.ts). */
const PICTURED: readonly string[] = ['', '/map?revoked=true', '/nodes', '/users', '/explain'];
const PICTURE_SIZE = { width: 960, height: 620 };
const PAGES = [
  '',
  '/map?revoked=true',
  '/app-credentials',
  '/app-credentials/new',
  '/nodes',
  '/nodes/new',
  `/nodes?household_id=${HOUSEHOLD}&unused_since=-30d`,
  '/users',
  '/households',
  `/households/${HOUSEHOLD}`,
  '/enrolments',
  '/enrolments/new',
  '/operators',
  '/operators/new',
  '/explain',
  '/audit-events',
];
const ABOUT = 'An id, an e-mail address, or an address of a network';
/** The rules of axe-core that depend on colours, widths and sizes. The others read elements and attributes, which stay. */
const RULES_OF_LOOKS = ['color-contrast', 'link-in-text-block', 'scrollable-region-focusable', 'target-size'];
const VIEWS = [
  { colorScheme: 'light', viewport: { width: 1920, height: 1080 }, rules: undefined },
  { colorScheme: 'dark', viewport: { width: 360, height: 740 }, rules: IS_NIGHTLY ? undefined : RULES_OF_LOOKS },
] as const;

interface Console {
  readonly browser: Browser;
  readonly url: string;
  readonly adminKey: string;
}

/** Violations of the policy, and errors of the page's script. */
const complaints: string[] = [];

async function openConsole({ browser, url }: Console, options: object = {}): Promise<Page> {
  const context: BrowserContext = await browser.newContext({ baseURL: url, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  page.on('pageerror', (error) => void complaints.push(error.message));
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text());
  });
  return page;
}

async function fillAndSend(page: Page, fields: Readonly<Record<string, string>>, button: string): Promise<void> {
  for (const [label, value] of Object.entries(fields)) await page.getByLabel(label, { exact: true }).fill(value);
  await page.getByRole('button', { name: button, exact: true }).click();
}

async function logIn(page: Page, key: string): Promise<void> {
  await page.goto('/console/login');
  await fillAndSend(page, { Key: key }, 'Log in');
}

async function expectTitle(page: Page, name: string, title: string | RegExp): Promise<void> {
  await checks.run(name, () => page.getByRole('heading', { level: 1, name: title }).waitFor());
}

const follow = (page: Page, name: string | RegExp): Promise<void> => page.getByRole('link', { name }).first().click();

async function checkNode(page: Page, suffix: string): Promise<void> {
  await page.goto('/console/nodes/new');
  await fillAndSend(page, { Household: HOUSEHOLD, Room: 'kitchen', Name: 'speaker' }, 'Issue the key');
  await expectText(page, `a new node's key is shown ${suffix}`, /API_KEY=pa_node_/);
  await page.reload();
  await expectTitle(page, `the same form makes no second node ${suffix}`, 'This form was sent before');
  await page.goto('/console/nodes?search=kitchen');
  await follow(page, 'kitchen/speaker');
  await follow(page, 'Rotate …');
  await fillAndSend(page, { 'Hours for which the old key stays valid': '2' }, 'Rotate');
  await expectText(page, `the rotated key is shown ${suffix}`, /API_KEY=pa_node_/);
  await follow(page, /^To /);
  await expectText(page, `the node has two keys ${suffix}`, 'two keys');
  await follow(page, 'Change …');
  await fillAndSend(page, { Room: '</script>&מטבח' }, 'Change');
  await expectTitle(page, `a name is text, whatever it contains ${suffix}`, '</script>&מטבח/speaker');
  await follow(page, 'Revoke …');
  await page.getByRole('button', { name: 'Revoke' }).click();
  await expectText(page, `the node is revoked ${suffix}`, 'revoked');
  await expectText(page, `its time line has the revocation ${suffix}`, 'admin.node.revoked');
}

/** Of a household that moves out, all devices are revoked but the one that stays. */
async function checkRevocations(page: Page, suffix: string, client: ApiClient): Promise<void> {
  const household_id = crypto.randomUUID();
  for (let index = 1; index <= 31; index += 1)
    await client.issueNode({ household_id, room: 'hall', name: `lamp ${index}` });
  await page.goto('/console/nodes');
  await fillAndSend(page, { Household: household_id }, 'Show');
  await page.getByLabel('Choose hall/lamp 7').check();
  await page.getByRole('button', { name: 'Revoke the chosen ones …' }).click();
  await expectTitle(page, `one chosen node is asked for ${suffix}`, 'Revoke 1 node');
  await page.getByRole('button', { name: 'Revoke 1 node' }).click();
  await expectText(page, `the chosen node is revoked ${suffix}`, 'Done: 1 node revoked.');
  await page.getByRole('button', { name: 'Revoke all 30 of this page …' }).click();
  await expectTitle(page, `30 nodes are asked for at once ${suffix}`, 'Revoke 30 nodes');
  await expectText(page, `the first ten are named ${suffix}`, 'and 20 more');
  await page.getByRole('button', { name: 'Revoke 30 nodes' }).click();
  await expectText(page, `30 nodes are revoked at once ${suffix}`, 'Done: 30 nodes revoked.');
}

async function checkKey(page: Page, suffix: string, target: string): Promise<void> {
  await page.goto('/console/app-credentials/new');
  await fillAndSend(page, { Caller: 'ocr', Target: target }, 'Issue the key');
  await expectText(page, `a new app credential is shown ${suffix}`, /_APP_KEY=pa_app_/);
  await page.goto('/console/app-credentials/new');
  await fillAndSend(page, { Caller: 'ocr', Target: target }, 'Issue the key');
  await expectText(page, `a second one for the same pair is refused ${suffix}`, /The pair has a live credential/);
  await page.goto('/console/map');
  await page.getByRole('link', { name: `ocr calls ${target}` }).press('Enter');
  await follow(page, 'Revoke …');
  await expectText(page, `it says what a revocation does ${suffix}`, 'It was never used.');
  await page.getByRole('button', { name: 'Revoke' }).click();
  await expectText(page, `the credential is revoked ${suffix}`, 'admin.app_credential.revoked');
}

async function checkUser(page: Page, suffix: string, email: string): Promise<void> {
  await page.goto('/console/users/new');
  await fillAndSend(page, { 'E-mail': email }, 'Invite the user');
  await expectTitle(page, `a user is created ${suffix}`, email);
  await follow(page, 'Disable …');
  await page.getByRole('button', { name: 'Disable' }).click();
  await expectText(page, `the user is disabled ${suffix}`, 'disabled');
  await follow(page, 'Enable …');
  await page.getByRole('button', { name: 'Enable' }).click();
  await follow(page, 'Reset the password …');
  await page.getByRole('button', { name: 'Reset the password' }).click();
  await expectText(page, `the reset token is shown ${suffix}`, /pa_reset_/);
  await follow(page, 'To the user');
  await follow(page, 'Delete …');
  await fillAndSend(page, { 'Type the e-mail address': 'another@example.org' }, 'Delete');
  await expectText(page, `another address deletes nothing ${suffix}`, /so nothing was changed/);
  await fillAndSend(page, { 'Type the e-mail address': email }, 'Delete');
  await expectTitle(page, `the user is deleted ${suffix}`, 'Users');
}

type Household = Readonly<Record<'name' | 'email', string>>;

async function checkHousehold(page: Page, suffix: string, { name, email }: Household): Promise<void> {
  await page.goto('/console/households');
  await fillAndSend(page, { 'Part of the name, or id': HOUSEHOLD }, 'Show');
  await follow(page, 'Rename …');
  await fillAndSend(page, { Name: name }, 'Rename');
  await expectTitle(page, `a household is renamed ${suffix}`, name);
  await follow(page, 'Add a member …');
  await fillAndSend(page, { 'E-mail address or id of the user': email }, 'Add a member');
  await follow(page, `Change the role: ${email}`);
  await page.getByLabel('Role').selectOption('admin');
  await page.getByRole('button', { name: 'Change the role' }).click();
  await expectText(page, `a member becomes an admin ${suffix}`, 'household.member.changed');
  await follow(page, `Remove: ${email}`);
  await page.getByRole('button', { name: 'Remove' }).click();
  await expectText(page, `a member is removed ${suffix}`, 'household.member.removed');
  await follow(page, 'Add a member …');
  await page.getByLabel('Role').selectOption('admin');
  await fillAndSend(page, { 'E-mail address or id of the user': email }, 'Add a member');
  await page.goto('/console/households');
  await fillAndSend(page, { 'Member, by e-mail address or id': email }, 'Show');
  await follow(page, name);
  await expectTitle(page, `a household is found by a member ${suffix}`, name);
  await follow(page, email);
  await expectText(page, `a user's page has the households ${suffix}`, name);
}

/** At a name, because browsers refuse passkeys at an address. */
async function checkPasskeyLogin({ browser, url, adminKey }: Console): Promise<void> {
  const atName = { browser, url: url.replace('127.0.0.1', 'localhost'), adminKey };
  const { api_key: key } = await issueOperator(url, adminKey);
  const page = await openConsole(atName);
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR });
  await logIn(page, key);
  await follow(page, 'passkeys');
  await follow(page, 'Add a passkey …');
  await fillAndSend(page, { Name: 'laptop' }, 'Add the passkey');
  await expectTitle(page, 'the first passkey ends the session that began without one', 'Log in');
  await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
  await fillAndSend(page, { Key: key }, 'Log in');
  await expectTitle(page, 'the login asks for the passkey', 'Your passkey');
  const send = page.getByRole('button', { name: 'Continue' });
  await send.click();
  await expectText(page, 'an authenticator that verifies no person sends nothing', /^The browser gave no passkey/);
  checks.note('and the form can be sent again', await send.isEnabled());
  await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });
  await send.click();
  await expectText(page, 'key and passkey open the console', 'laptop');
  const withoutScript = await openConsole(atName, { javaScriptEnabled: false });
  await logIn(withoutScript, key);
  await expectText(withoutScript, 'without JavaScript it says what is missing', /^A passkey needs JavaScript/);
  await follow(page, 'Remove …');
  await page.getByRole('button', { name: 'Remove' }).click();
  await expectTitle(page, 'the removed passkey ends the session', 'Log in');
  await fillAndSend(page, { Key: key }, 'Log in');
  await expectText(page, 'and the key alone opens the console', 'Passkeys: none.');
}

async function issueOperator(url: string, adminKey: string): Promise<{ readonly api_key: string }> {
  const headers = { 'Content-Type': 'application/json', 'X-Admin-Key': adminKey };
  const body = JSON.stringify({ name: 'olga', scopes: ['read'] });
  const response = await fetch(`${url}/api/v0/admin/operators`, { method: 'POST', headers, body });
  return (await response.json()) as { readonly api_key: string };
}

/** Two operators act on one node; one operator is revoked by another. */
async function checkOperators(service: Console, root: Page): Promise<void> {
  await root.goto('/console/operators/new');
  await root.getByLabel('nodes', { exact: true }).check();
  await fillAndSend(root, { Name: 'nora' }, 'Issue the key');
  const key = await root.locator('.secret code').first().textContent();
  const nora = await openConsole(service);
  await logIn(nora, key ?? '');
  await nora.goto('/console/operators');
  await expectText(nora, 'an operator without the scope is told who can grant it', /can grant it/);
  await nora.goto('/console/nodes');
  await follow(nora, 'hall/lamp');
  await follow(nora, 'Change …');
  await root.goto('/console/nodes');
  await follow(root, 'hall/lamp');
  await follow(root, 'Change …');
  await fillAndSend(root, { Name: 'light' }, 'Change');
  await expectTitle(root, 'the first operator changes the node', 'hall/light');
  await fillAndSend(nora, { Name: 'candle' }, 'Change');
  await expectTitle(nora, 'the second one is told', 'Changed meanwhile');
  await root.goto('/console/operators?name=nora');
  await follow(root, 'nora');
  await follow(root, 'Revoke …');
  await fillAndSend(root, { 'Type the name': 'nora' }, 'Revoke');
  await expectText(root, 'an operator is revoked', 'admin.operator.revoked');
  await nora.goto('/console/nodes');
  await expectTitle(nora, 'a session ends with the key that began it', 'Log in');
}

async function checkExplain(page: Page): Promise<void> {
  await page.goto('/console/explain');
  await page.getByLabel(ABOUT).fill('alice@example.org');
  await page.keyboard.press('Enter');
  await expectText(page, 'a login is explained', 'would be accepted now');
  await page.goto('/console/explain');
  await fillAndSend(page, { [ABOUT]: `pa_node_${'x'.repeat(43)}` }, 'Explain');
  await expectTitle(page, 'a pasted key gets into no address', 'Neither an id nor an e-mail address');
  await page.goto('/console/login?key=abc');
  await expectTitle(page, 'a key in the address bar is refused', 'Not in the address bar');
}

interface Axe {
  run(options: object): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>;
}

/** Loads a page once, and looks at it in each view. */
async function checkPage(page: Page, path: string): Promise<void> {
  await page.setViewportSize(VIEWS[0].viewport);
  await page.goto(`/console${path}`);
  await page.evaluate(AXE);
  for (const { rules, ...view } of VIEWS) {
    await page.emulateMedia({ colorScheme: view.colorScheme });
    await page.setViewportSize(view.viewport);
    await checkView(page, `/console${path}`, `${view.colorScheme}, ${view.viewport.width} px`, rules);
  }
}

async function checkView(page: Page, path: string, view: string, rules: readonly string[] | undefined): Promise<void> {
  const found = await page.evaluate(
    async (options) => {
      const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run(options);
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    },
    { resultTypes: ['violations'], ...(rules && { runOnly: rules }) },
  );
  const which = rules ? 'the rules of axe-core about looks' : 'axe-core';
  checks.note(`${path} has no violation of ${which}, ${view}`, found.length === 0, found.join('\n'));
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  checks.note(`${path} does not scroll sideways, ${view}`, overflow <= 0, overflow);
  const covered = await page.evaluate(() =>
    [...document.querySelectorAll('.field')].flatMap((field) => {
      const [hint, input] = ['small', 'input, select'].map((part) =>
        field.querySelector(part)?.getBoundingClientRect(),
      );
      return hint && input && hint.top < input.bottom && input.top < hint.bottom ? [field.textContent] : [];
    }),
  );
  checks.note(`${path} has no hint over its field, ${view}`, covered.length === 0, covered.join('\n'));
}

async function checkLooks(service: Console): Promise<void> {
  // Without motion, a change of the colour scheme is complete at once.
  const page = await openConsole(service, { reducedMotion: 'reduce' });
  await logIn(page, service.adminKey);
  for (const path of PAGES) {
    await checkPage(page, path);
    if (!takesPictures || !PICTURED.includes(path)) continue;
    mkdirSync(PICTURES, { recursive: true });
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize(PICTURE_SIZE);
    const name = path.slice(1).replace(/\?.*/, '') || 'dashboard';
    await page.screenshot({ path: join(PICTURES, `${name}.png`) });
  }
}

/** What the pictures show: keys that are used, rotated and revoked, and a wrong password. */
async function fillPlatform(client: ApiClient, url: string, adminKey: string): Promise<void> {
  const post = (path: string, headers: Record<string, string>, body: object = {}): Promise<Response> =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  const other = 'c2d0a1fe-6a45-4b57-8f0e-0a4f3f9b7d21';
  await client.issueNode({ household_id: HOUSEHOLD, room: 'hall', name: 'lamp' });
  await client.issueNode({ household_id: other, room: 'office', name: 'camera' });
  await client.issueNode({ household_id: HOUSEHOLD, room: 'bathroom', name: 'heater' });
  for (const pair of ['ocr auth', 'ui ocr', 'ui recipes', 'recipes notification', 'legacy recipes']) {
    const [caller = '', target = ''] = pair.split(' ');
    const issued = await client.issueAppCredential({ caller, target });
    const { app_id, app_key } = issued;
    const headers = { 'X-Platform-App-Id': app_id, 'X-Platform-App-Key': app_key, 'X-Platform-Target': target };
    if (caller !== 'recipes') await post('/internal/validate-app', headers);
    if (caller === 'legacy') await client.revokeAppCredential(issued);
    if (target === 'recipes' && caller === 'ui')
      await post(`/api/v0/admin/app-credentials/${app_id}/rotate`, { 'X-Admin-Key': adminKey });
  }
  const code = { household_id: HOUSEHOLD, room: 'attic', name: 'sensor', expires_in_minutes: 60 };
  await post('/api/v0/admin/enrolments', { 'X-Admin-Key': adminKey }, code);
  await post('/api/v0/auth/login', {}, { email: 'alice@example.org', password: 'not her password' });
}

export async function checkConsole(cleanup: Cleanup): Promise<void> {
  const { server, adminKey } = await startFirstRun(cleanup);
  const service = { browser: await launchBrowser(cleanup), url: server.url, adminKey };
  const client = new ApiClient(server.url, adminKey);
  for (const email of ['alice@example.org', 'dora@example.org'])
    await client.register({ email, password: 'correct horse battery' });
  await fillPlatform(client, server.url, adminKey);
  for (const javaScriptEnabled of [true, false]) {
    const suffix = javaScriptEnabled ? 'with JavaScript' : 'without JavaScript';
    const page = await openConsole(service, { javaScriptEnabled });
    await logIn(page, 'not-the-key-of-anybody-0123456789abcdef');
    await expectTitle(page, `a wrong key is refused ${suffix}`, 'The key is not valid');
    await logIn(page, adminKey);
    await expectTitle(page, `the root key opens the console ${suffix}`, 'Dashboard');
    await checkNode(page, suffix);
    await checkRevocations(page, suffix, client);
    await checkKey(page, suffix, javaScriptEnabled ? 'speech' : 'settings');
    await checkHousehold(
      page,
      suffix,
      javaScriptEnabled
        ? { name: 'Sea Side', email: 'alice@example.org' }
        : { name: 'Sea View', email: 'dora@example.org' },
    );
    await checkUser(page, suffix, javaScriptEnabled ? 'bob@example.org' : 'carol@example.org');
    if (!javaScriptEnabled) continue;
    await checkOperators(service, page);
    await checkPasskeyLogin(service);
    await checkExplain(page);
    await page.goto('/console');
    await page.getByRole('button', { name: 'Log out' }).click();
    await expectTitle(page, 'the logout leads to the login', 'Log in');
    await page.goto('/console/app-credentials');
    await expectTitle(page, 'and ends the session', 'Log in');
  }
  await checkLooks(service);
  checks.note('no page complains about its policy or its script', complaints.length === 0, complaints.join('\n'));
}
