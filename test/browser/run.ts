// Opens pages in a real browser: /docs, and the page of examples/passkeys. The last line counts what was checked.
import { checks } from './browser.js';
import { checkDocsPage } from './docs-page.js';
import { checkPasskeys } from './passkeys.js';

await checks.around(async (cleanup) => {
  await checkDocsPage(cleanup);
  await checkPasskeys(cleanup);
});
