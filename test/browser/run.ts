// Opens pages in a real browser: /docs, and those of examples/passkeys and examples/account-pages. The last line counts what was checked.
import { checkAccountPages } from './account-pages.js';
import { checks } from './browser.js';
import { checkDocsPage } from './docs-page.js';
import { checkPasskeys } from './passkeys.js';

await checks.around(async (cleanup) => {
  await checkDocsPage(cleanup);
  await checkPasskeys(cleanup);
  await checkAccountPages(cleanup);
});
