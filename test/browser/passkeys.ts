// The page of examples/passkeys in a real browser, with the virtual authenticator that its debugger offers (WebAuthn §11).
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { join } from 'node:path';
import type { CDPSession, Page } from 'playwright-core';
import { z } from 'zod';
import { claimPort } from '../../tools/claim-port.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { isResponding, ServerProcess } from '../../tools/server-process.js';
import { checks, launchBrowser } from './browser.js';
import { startFirstRun } from './service.js';

const TIMEOUT_MS = 60_000;
/** Nothing listens there. */
const OTHER_SERVICE = 'http://127.0.0.1:1';
const PAGE_SCRIPT = join(import.meta.dirname, '../../examples/passkeys/serve.js');
/** A phone or a laptop: it asks for a fingerprint, and shows the passkey without being told whose. */
export const AUTHENTICATOR = {
  protocol: 'ctap2',
  transport: 'internal',
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
} as const;

const resultSchema = z.object({
  what: z.string(),
  status: z.number(),
  code: z.string().optional(),
  amr: z.array(z.string()).optional(),
});
type Result = z.output<typeof resultSchema>;

/** Clicks, and waits for what the page writes then. */
async function click(page: Page, id: string): Promise<Result> {
  await page.evaluate(`document.getElementById('result').textContent = ''`);
  await page.click(`#${id}`);
  await page.waitForFunction(`document.getElementById('result').textContent !== ''`);
  return resultSchema.parse(JSON.parse(await page.locator('#result').innerText()));
}

async function expectResult(name: string, page: Page, id: string, expected: Partial<Result>): Promise<void> {
  const found = await click(page, id);
  const isGood = Object.entries(expected).every(
    ([field, value]) => JSON.stringify(found[field as keyof Result]) === JSON.stringify(value),
  );
  checks.note(name, isGood, JSON.stringify(found));
}

/** Puts the passkey back as a clone has it: the same key, and a counter that has not seen the last logins. */
async function cloneAuthenticator(session: CDPSession, authenticatorId: string): Promise<void> {
  const { credentials } = await session.send('WebAuthn.getCredentials', { authenticatorId });
  const [credential] = credentials;
  if (!credential) throw new Error('The authenticator has no passkey');
  await session.send('WebAuthn.removeCredential', { authenticatorId, credentialId: credential.credentialId });
  await session.send('WebAuthn.addCredential', { authenticatorId, credential: { ...credential, signCount: 0 } });
}

async function visit(page: Page, session: CDPSession, authenticatorId: string): Promise<void> {
  await page.fill('#email', `${randomUUID()}@example.org`);
  await page.fill('#password', 'correct horse battery');
  await expectResult('the page registers an account', page, 'register', { status: 201 });
  await expectResult('a login needs the password alone', page, 'log-in', { status: 200, amr: ['pwd'] });
  await expectResult('the browser makes a passkey', page, 'add-passkey', { status: 201 });
  const both = ['pwd', 'hwk', 'user', 'mfa'];
  await expectResult('a login needs password and passkey', page, 'log-in', { status: 200, amr: both });
  const alone = ['hwk', 'user', 'mfa'];
  await expectResult('the passkey alone logs in', page, 'log-in-with-passkey', { status: 200, amr: alone });
  await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false });
  await expectResult('an authenticator that does not verify the user is refused', page, 'log-in-with-passkey', {
    status: 0,
  });
  await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: true });
  await cloneAuthenticator(session, authenticatorId);
  const refused = { status: 401, code: 'invalid_passkey' };
  await expectResult('a cloned passkey is refused by its counter', page, 'log-in-with-passkey', refused);
  const challenged = { status: 401, code: 'invalid_second_factor' };
  await expectResult('also after the password', page, 'log-in', challenged);
}

/** As it is: `fetch` would change it. @returns the status */
async function askFor(port: number, path: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const asked = request({ port, path, host: '127.0.0.1' }, (response) => resolve(response.resume().statusCode));
    asked.on('error', reject).end();
  });
}

export async function checkPasskeys(cleanup: Cleanup): Promise<void> {
  const port = await claimPort();
  const origin = `http://localhost:${port}`;
  const service = await startFirstRun(cleanup, { WEBAUTHN_ORIGINS: origin, CORS_ORIGINS: origin });
  const words = ['--port', String(port), '--service', service.server.url];
  await new ServerProcess(port, {
    cleanup,
    script: PAGE_SCRIPT,
    words,
    isReady: isResponding,
    onLine: () => undefined,
  }).start();
  const browser = await launchBrowser(cleanup);
  const page = await browser.newPage();
  page.setDefaultTimeout(TIMEOUT_MS);
  const session = await page.context().newCDPSession(page);
  await session.send('WebAuthn.enable');
  const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', { options: AUTHENTICATOR });
  // The address of the page does not choose where the password goes: the next checks need the service of the command line.
  await page.goto(`${origin}/?service=${OTHER_SERVICE}`);
  await visit(page, session, authenticatorId);
  checks.note('an odd path is not found', (await askFor(port, '//')) === 404);
  checks.note('and the server goes on', (await askFor(port, '/')) === 200);
  await browser.close();
  await service.server.stop();
}
