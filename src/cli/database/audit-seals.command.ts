import { readFileSync } from 'node:fs';
import { InvalidArgumentError, type Command } from 'commander';
import type { Query, Verification } from '../../domain/audit/seals/seal-verifier.js';
import {
  formatCheckpoint,
  isCheckpoint,
  LAST_SEAL,
  MAX_FINDINGS,
  SealKey,
  type SealContent,
  type StoredSeal,
} from '../../domain/audit/seals/seal.js';
import { parseAuditSealSecret, parseVariable, readVariables } from '../../foundation/config/environment.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE } from '../command-options.js';
import { describeCause } from '../failures.js';
import { announceIfSlow, CommandFailedError, print } from '../terminal.js';
import { formatTable, wrapText } from '../tables.js';

const NEEDS = `${NEEDS_DATABASE}
It also needs the key of the seals: AUDIT_SEAL_KEY or AUDIT_SEAL_KEY_FILE; MASTER_KEY or MASTER_KEY_FILE if the service has none.`;

/** `platform-auth audit verify`: finds rows and seals that were tampered with; see docs/audit.md. Only reads. */
export function addVerifyCommand(audit: Command): void {
  addCommand(
    audit,
    'verify',
    'Verify the audit log by its seals. Exit code 1 when a row or a seal was tampered with, or a key was not given.',
    { needs: NEEDS, variables: `${DATABASE_EXAMPLE} AUDIT_SEAL_KEY=…` },
  )
    .option('--checkpoint <line>', 'a line that "audit checkpoint" printed earlier', parseCheckpoint)
    .option('--old-keys <file>', 'former seal keys, one per line')
    .action(async ({ checkpoint, oldKeys }: { checkpoint?: string; oldKeys?: string }, command: Command) => {
      const { SealVerifier } = await import('../../domain/audit/seals/seal-verifier.js');
      const old = oldKeys === undefined ? [] : readOldKeys(oldKeys);
      const verification = withDatabase((query, key) => {
        const keys = new Map([...old, key].map((each) => [each.id, each]));
        return new SealVerifier(query, keys).verifyLog(checkpoint);
      });
      const report = await announceIfSlow('Reading the audit log', verification);
      print(command, report, formatVerification);
      refuseFindings(report);
    });
}

/** `platform-auth audit checkpoint`: one line that commits to everything sealed so far. */
export function addCheckpointCommand(audit: Command): void {
  addCommand(
    audit,
    'checkpoint',
    'Print one line to store outside the database: later it proves that nothing sealed before it was rewritten.',
    { needs: NEEDS, example: '>> checkpoints.txt' },
  ).action(async (_options: object, command: Command) => {
    const checkpoint = await withDatabase(async (query, key) => {
      const [seal] = await query<StoredSeal>(LAST_SEAL);
      if (!seal) throw new CommandFailedError('Nothing is sealed yet. Start the service: it seals every few seconds.');
      if (!key.hasSealed(seal))
        throw new CommandFailedError('The last seal is not valid. Run: platform-auth audit verify');
      const { number, at } = JSON.parse(seal.content) as SealContent;
      return formatCheckpoint({ number, at, mac: seal.mac });
    });
    print(command, { checkpoint }, () => checkpoint);
  });
}

/**
 * A seal under a key that was not given is reported apart, because the caller most likely gave the wrong key.
 * @throws {CommandFailedError} when there are findings
 */
function refuseFindings({ findings }: Verification): void {
  if (findings.length === 0) return;
  const more = findings.length === MAX_FINDINGS ? ' or more' : '';
  const unproven = findings.filter(({ kind }) => kind === 'other_key').length;
  const tampered = findings.length - unproven;
  if (tampered === 0)
    throw new CommandFailedError(
      `${unproven}${more} seals were made with a key that was not given: nothing is proven about them. ` +
        'Give the key of the service (AUDIT_SEAL_KEY, or MASTER_KEY if it has none), and former ones with --old-keys.',
      'key_missing',
    );
  const note = unproven === 0 ? '' : ` Seals under a key that was not given: ${unproven}.`;
  throw new CommandFailedError(`Tampered with: ${tampered}${more}.${note}`, 'tampered');
}

function formatVerification(report: Verification): string {
  const { seals, rows, dropped_rows, dropped_months, sealed_until, waiting, findings } = report;
  const parts = [
    `${seals} seals, ${rows} rows, sealed until ${sealed_until ?? 'never'}. Rows not sealed yet: ${waiting}.`,
  ];
  if (dropped_months.length > 0)
    parts.push(`Dropped by retention: ${dropped_months.join(', ')} (${dropped_rows} rows).`);
  const found = findings.map(({ kind, row, time, what }) => ({ kind, row, time, what: wrapText(what) }));
  parts.push(
    found.length === 0 ? 'No row and no seal was tampered with.' : formatTable(['kind', 'row', 'time', 'what'], found),
  );
  return parts.join('\n');
}

function parseCheckpoint(line: string): string {
  if (!isCheckpoint(line)) throw new InvalidArgumentError('It must be a whole line of "audit checkpoint", in quotes.');
  return line;
}

function readOldKeys(path: string): SealKey[] {
  try {
    const lines = readFileSync(path, 'utf8').split('\n');
    return lines.flatMap((line) => (line.trim() === '' ? [] : new SealKey(line.trim())));
  } catch (error) {
    const message = `${path} cannot be read: ${describeCause(error)}. Correct --old-keys.`;
    throw new CommandFailedError(message, 'file_unusable');
  }
}

async function withDatabase<Result>(work: (query: Query, key: SealKey) => Promise<Result>): Promise<Result> {
  const { Client } = await import('pg');
  const { BEGIN_VERIFICATION } = await import('../../domain/audit/seals/seal-verifier.js');
  const variables = readVariables();
  const client = new Client({
    connectionString: parseVariable(variables, 'DATABASE_URL'),
    connectionTimeoutMillis: 5_000,
  });
  const key = new SealKey(parseAuditSealSecret(variables));
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query(BEGIN_VERIFICATION);
    const query: Query = async <Row extends object>(text: string, values: unknown[] = []) =>
      (await client.query<Row>(text, values)).rows;
    return await work(query, key);
  } finally {
    await client.end();
  }
}
