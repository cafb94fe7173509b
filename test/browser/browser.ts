import { existsSync } from 'node:fs';
import { chromium, type Browser, type Page } from 'playwright-core';
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';

/** The first one has no windows, and takes a third less CPU. */
const BROWSERS = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].map(
  (name) => `/usr/bin/${name}`,
);
const START_TIMEOUT_MS = 60_000;
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

/** Pictures are for people and cost the browser more than the checks: SCREENSHOTS=yes takes them. */
export const takesPictures = process.env.SCREENSHOTS === 'yes';

/** Of all pages: the last line of the run counts them. */
export const checks = new Checks();

/** Debian's Chromium, or the browser that CHROMIUM_PATH names. */
export async function launchBrowser(cleanup: Cleanup): Promise<Browser> {
  const executablePath = process.env.CHROMIUM_PATH ?? BROWSERS.find((path) => existsSync(path));
  const options = { args: FLAGS, timeout: START_TIMEOUT_MS };
  return cleanup.acquire(
    () => chromium.launch({ ...(executablePath !== undefined && { executablePath }), ...options }),
    (launched) => launched.close(),
  );
}

/** Waits until the page shows a text. */
export async function expectText(page: Page, name: string, text: string | RegExp): Promise<void> {
  await checks.run(name, () => page.getByText(text).filter({ visible: true }).first().waitFor());
}
