import { readFileSync } from 'node:fs';
import { InvalidArgumentError, type Command } from 'commander';
import { ACKNOWLEDGED, MAX_FINDINGS, type SealFinding } from '../../domain/audit/seals/seal-findings.js';
import type { Verification } from '../../domain/audit/seals/seal-verifier.js';
import {
  formatCheckpoint,
  isCheckpoint,
  LAST_SEAL,
  SealKey,
  type Query,
  type SealContent,
  type StoredSeal,
} from '../../domain/audit/seals/seal.js';
import { parseAuditSealSecret, parseVariable, readVariables } from '../../foundation/config/environment.js';
import { COMMAND_LINE } from '../../foundation/access/actor.js';
import { redactSecrets } from '../../foundation/common/redaction.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE, readSystemUser } from '../command-options.js';
import { describeCause } from '../failures.js';
import { announceIfSlow, CommandFailedError, print } from '../terminal.js';
import { formatTable, wrapText } from '../tables.js';

const NEEDS = `${NEEDS_DATABASE}
It also needs the key of the seals: AUDIT_SEAL_KEY or AUDIT_SEAL_KEY_FILE; MASTER_KEY or MASTER_KEY_FILE if the service has none.`;
const VARIABLES = `${DATABASE_EXAMPLE} AUDIT_SEAL_KEY=…`;
const MAX_REASON_LENGTH = 500;

interface VerifyOptions {
  readonly checkpoint?: string;
  readonly oldKeys?: string;
}

/** `platform-auth audit verify`: finds rows and seals that were tampered with; see docs/audit.md. Only reads. */
export function addVerifyCommand(audit: Command): void {
  const description =
    'Verify the audit log by its seals. Exit code 1 when a finding is not acknowledged: a row or a seal was tampered with, or a key was not given.';
  const command = addCommand(audit, 'verify', description, { needs: NEEDS, variables: VARIABLES });
  addVerifyOptions(command).action(async (options: VerifyOptions) => {
    const report = await verifyLog(options);
    print(command, report, formatVerification);
    refuseFindings(report);
  });
}

/** `platform-auth audit acknowledge`: records that an operator has looked at findings; `audit verify` then passes. */
export function addAcknowledgeCommand(audit: Command): void {
  const description = 'Acknowledge findings of "audit verify", by name, so that it reports only new ones as a failure.';
  const needs = `${NEEDS}\nThe connection must be allowed to add rows to the audit log.`;
  const example = `inserted-3f1c09ab77de --reason "the clock of a replica was wrong"`;
  const command = addCommand(audit, 'acknowledge <findings...>', description, { needs, variables: VARIABLES, example });
  addVerifyOptions(command)
    .requiredOption('--reason <text>', 'why it needs no more attention; the audit log keeps it', parseReason)
    .option('--as <name>', 'who acts, for the audit log (default: your user on this machine)')
    .action(async (names: string[], options: VerifyOptions & { reason: string; as?: string }) => {
      const report = await verifyLog(options);
      const findings = [...new Set(names)].map((name) => {
        const found = [...report.findings, ...report.acknowledged].find((finding) => finding.name === name);
        if (found) return found;
        const message = `"audit verify" has no finding ${name}. Nothing was acknowledged.`;
        throw new CommandFailedError(message, 'unknown_finding');
      });
      const added = findings.filter((finding) => report.findings.includes(finding));
      if (added.length > 0)
        await recordAcknowledgements(added, options.reason, redactSecrets(options.as ?? readSystemUser()));
      const acknowledged = added.map(({ name }) => name);
      print(command, { acknowledged }, () => `Acknowledged: ${acknowledged.join(', ') || 'nothing new'}.`);
    });
}

async function recordAcknowledgements(
  findings: readonly SealFinding[],
  reason: string,
  operator: string,
): Promise<void> {
  const variables = readVariables();
  const key = new SealKey(parseAuditSealSecret(variables));
  const { withServices } = await import('./database-services.js');
  await withServices(variables, ({ audit, dataSource }) =>
    dataSource.transaction(async (transaction) => {
      for (const { name } of findings) {
        const mac = key.computeAcknowledgementMac({ finding: name, operator, reason }).toString('hex');
        const actor = { ...COMMAND_LINE, operator };
        await audit.record(transaction, { event: ACKNOWLEDGED, actor, subject: name, details: { reason, mac } });
      }
    }),
  );
}

function addVerifyOptions(command: Command): Command {
  return command
    .option('--checkpoint <line>', 'a line that "audit checkpoint" printed earlier', parseCheckpoint)
    .option('--old-keys <file>', 'former seal keys, one per line');
}

async function verifyLog({ checkpoint, oldKeys }: VerifyOptions): Promise<Verification> {
  const { SealVerifier } = await import('../../domain/audit/seals/seal-verifier.js');
  const old = oldKeys === undefined ? [] : readOldKeys(oldKeys);
  const verification = withDatabase((query, key) => {
    const keys = new Map([...old, key].map((each) => [each.id, each]));
    return new SealVerifier(query, keys).verifyLog(checkpoint);
  });
  return announceIfSlow('Reading the audit log', verification);
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
  const { seals, folded, rows, dropped_rows, dropped_months, sealed_until, waiting, findings, acknowledged } = report;
  const parts = [
    `${seals} seals, ${rows} rows, sealed until ${sealed_until ?? 'never'}. Rows not sealed yet: ${waiting}.`,
  ];
  if (folded > 0) parts.push(`Folded after their retention: seals 1 to ${folded}.`);
  if (dropped_months.length > 0)
    parts.push(`Dropped by retention: ${dropped_months.join(', ')} (${dropped_rows} rows).`);
  if (acknowledged.length > 0) {
    const known = acknowledged.map(({ reason, ...finding }) => ({ ...finding, reason: wrapText(reason) }));
    parts.push('Acknowledged:', formatTable(ACKNOWLEDGED_COLUMNS, known, { drop: ['row', 'acknowledged_at'] }));
  }
  const found = findings.map(({ what, ...finding }) => ({ ...finding, what: wrapText(what) }));
  if (found.length > 0) parts.push(formatTable(['name', 'row', 'time', 'what'], found, { drop: ['time'] }));
  else if (acknowledged.length > 0) parts.push('Nothing else was tampered with.');
  else parts.push('No row and no seal was tampered with.');
  return parts.join('\n');
}

const ACKNOWLEDGED_COLUMNS = ['name', 'row', 'acknowledged_at', 'acknowledged_by', 'reason'] as const;

/** The reason is part of an HMAC, so it must be what the audit log stores, which redacts secrets. */
function parseReason(text: string): string {
  const reason = text.trim();
  if (reason === '' || reason.length > MAX_REASON_LENGTH || redactSecrets(reason) !== reason)
    throw new InvalidArgumentError(`It must be a text of 1 to ${MAX_REASON_LENGTH} characters without a key.`);
  return reason;
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
