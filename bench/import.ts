// How long `platform-auth users import` and `export` take, as an operator runs them: as processes, with a PostgreSQL on
// loopback that has its defaults (fsync). It prints the figures, and fails for none of them.
import { execFileSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';
import { finished } from 'node:stream/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { hash } from 'bcrypt';
import { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { makeTemporaryFolder, startPostgres, withClient } from '../tools/postgres.js';
import { formatFigure, printTable } from '../tools/table.js';

const USAGE = `Usage: npm run bench:import -- [--accounts N]

  --accounts N  lines of the file (default 100000)
  --help        print this text`;

const PROGRAM = fileURLToPath(new URL('../service/platform-auth.js', import.meta.url));
/** The number of different hashes. Many lines share one, because an import reads hashes and computes none. */
const HASHES = 500;
const BCRYPT_COST = 4;

const { accounts } = readCommandLine(USAGE, () => {
  const { values } = parseArgs({ options: { accounts: { type: 'string', default: '100000' } } });
  const count = Number(values.accounts);
  if (!(Number.isInteger(count) && count >= 1 && count <= 10_000_000)) throw new Error('1 to 10000000 accounts');
  return { accounts: count };
});

await Cleanup.around(async (cleanup) => {
  const database = await startPostgres({ cleanup, purpose: 'bench-import' });
  const folder = makeTemporaryFolder(cleanup, 'bench-import-files');
  const file = join(folder, 'users.ndjson');
  await writeAccounts(file);
  const rows: [string, string, string][] = [];
  const time = (what: string, url: string, ...words: string[]): void => {
    const startedAt = performance.now();
    const output = execFileSync(process.execPath, [PROGRAM, ...words], {
      env: { PATH: process.env.PATH, DATABASE_URL: url },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    rows.push([what, formatFigure((performance.now() - startedAt) / 1_000, 1), output.trim()]);
  };
  for (const name of ['first', 'second']) {
    await withClient(database.url(), (client) => client.query(`CREATE DATABASE ${name}`));
    const url = database.url(name);
    execFileSync(process.execPath, [PROGRAM, 'migrate'], { env: { PATH: process.env.PATH, DATABASE_URL: url } });
    if (name === 'first') time('import --dry-run', url, 'users', 'import', file, '--dry-run');
    time('import', url, 'users', 'import', file);
    if (name === 'second') time('import, again', url, 'users', 'import', file);
    if (name === 'second') time('export', url, 'users', 'export', '--yes', '--output', join(folder, 'export.ndjson'));
  }
  console.log(`\nNode ${process.version}, ${accounts} accounts, each command a process\n`);
  printTable(['users', 'seconds', 'report'], rows);
});

async function writeAccounts(file: string): Promise<void> {
  const hashes = await Promise.all(
    Array.from({ length: HASHES }, (_, index) => hash(`password ${index}`, BCRYPT_COST)),
  );
  const stream = createWriteStream(file);
  for (let number = 0; number < accounts; number += 1) {
    const line = { email: `user-${number}@example.org`, password_hash: hashes[number % HASHES], email_verified: true };
    if (!stream.write(`${JSON.stringify(line)}\n`)) await once(stream, 'drain');
  }
  await finished(stream.end());
}
