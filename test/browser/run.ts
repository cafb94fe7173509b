// Opens pages in a real browser: /docs, /console, and those of examples/passkeys and examples/account-pages. The last line
// counts what was checked.
import { checkAccountPages } from './account-pages.js';
import { checks } from './browser.js';
import { checkConsole } from './console.js';
import { checkDocsPage } from './docs-page.js';
import { checkPasskeys } from './passkeys.js';

await checks.around(async (cleanup) => {
  await checkDocsPage(cleanup);
  await checkConsole(cleanup);
  await checkPasskeys(cleanup);
  await checkAccountPages(cleanup);
});
