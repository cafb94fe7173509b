// Pastes every shell block of the README and of docs/ as it is written, page by page into one shell, beside the service of the
// README. A block that cannot run here says why in the page, and is parsed only. The runbooks have a machine of their own
// (test/runbooks). The last line counts.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { Checks } from '../../tools/checks.js';
import { fromRoot } from '../support/from-root.js';
import { readBlocks, type Block } from './blocks.js';
import { Reader } from './reader.js';

const README = 'README.md';
/** Run by test:runbooks. */
const RUNBOOKS = ['incidents', 'backup', 'upgrade'].map((name) => `docs/operations/${name}.md`);
/** Read first: the others go on with the keys that they make. */
const FIRST = ['docs/platform.md', 'docs/integrate.md'];
const LATER = readdirSync(fromRoot('docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => `docs/${name}`)
  .filter((page) => ![...RUNBOOKS, ...FIRST].includes(page))
  .sort();
const PAGES = [...FIRST, ...LATER];
/** What a reader could not paste: a prompt, what is left out, and answers among commands. */
const NOT_PASTEABLE = /^\$ |…|^ *```console$/m;

const checks = new Checks();
const report = (block: Block, failure: string | undefined): void =>
  checks.note(block.name, failure === undefined, failure);

function checkForm(page: string): void {
  const isConsole = /^ *```console$/m.test(readFileSync(fromRoot(page), 'utf8'));
  checks.note(`${page} has no block that mixes commands with answers`, !isConsole);
  for (const { name, text, reason, hasOwnTerminal } of readBlocks(page)) {
    if (hasOwnTerminal && reason === undefined && page !== README) checks.note(`${name} says why it is not run`, false);
    if (NOT_PASTEABLE.test(text)) checks.note(`${name} can be pasted`, false, text);
    if (reason === undefined) continue;
    const { status, stderr } = spawnSync('bash', ['-n'], {
      input: text.replaceAll(/<[\w -]+>/g, 'X'),
      encoding: 'utf8',
    });
    checks.note(`${name} is parsed, and not run: ${reason}`, status === 0, stderr);
  }
}

await checks.around(async (cleanup) => {
  const reader = await Reader.start(cleanup);
  const asked = process.argv.slice(2);
  const pages = PAGES.filter((page) => asked.length === 0 || asked.includes(page));
  for (const page of [README, ...pages]) checkForm(page);
  const isRun = ({ reason, hasOwnTerminal }: Block): boolean => reason === undefined && !hasOwnTerminal;
  const readme = readBlocks(README);
  for (const block of readme.filter(({ hasOwnTerminal }) => hasOwnTerminal))
    await checks.run(block.name, () => reader.openTerminal(block));
  const [setup, ...steps] = readme.filter(isRun);
  if (!setup) throw new Error('The README has no first steps');
  await reader.makeDatabase();
  await reader.paste([setup, ...steps], report);
  for (const page of pages) {
    const blocks = readBlocks(page).filter(isRun);
    if (blocks.length > 0) await reader.paste([{ ...setup, name: `${page} begins` }, ...blocks], report);
  }
});
