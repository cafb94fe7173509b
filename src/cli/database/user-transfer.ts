import { isUtf8 } from 'node:buffer';
import { createReadStream, fstatSync, openSync } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import { Clock } from '../../foundation/common/clock.js';
import { readVariables } from '../../foundation/config/environment.js';
import {
  formatAccountLine,
  parseAccountLine,
  recognizeFormat,
  RefusedLineError,
  type ImportCounts,
  type LineFormat,
  type PortableAccount,
  type AccountTransfer,
} from '../../domain/users/account-transfer.js';
import { hasPassword } from '../../domain/passwords/password-hasher.js';
import { CommandFailedError, Progress, writeExport } from '../terminal.js';
import { withServices } from './database-services.js';

const BATCH_SIZE = 1_000;
/** Longer than any line of an export: 100 households, with names of 100 characters of 4 bytes, take 48 KB. */
const MAX_LINE_BYTES = 65_536;
/** The report counts every refused line, and explains this many. */
const MAX_REPORTED_REFUSALS = 1_000;

export interface ImportReport extends ImportCounts {
  readonly dry_run: boolean;
  /** All lines read, including blank ones and the header. */
  lines: number;
  blank: number;
  /** Whether a signal ended the run before the end of the file. */
  interrupted: boolean;
  readonly refused_lines: { line: number; code: string; reason: string }[];
}

/** @param file its path, or `-` for standard input */
export async function importUsers(file: string, isDryRun: boolean, signal: AbortSignal): Promise<ImportReport> {
  // Opened before the database, so that an unreadable file changes nothing.
  const descriptor = file === '-' ? process.stdin.fd : openSync(file, 'r');
  const size = fstatSync(descriptor).size;
  const progress = new Progress(size > 0 ? size : undefined);
  return withServices(readVariables(), async ({ accounts }) => {
    const none = { lines: 0, blank: 0, imported: 0, without_password: 0, existing: 0, refused: 0 };
    const report: ImportReport = { dry_run: isDryRun, ...none, interrupted: false, refused_lines: [] };
    const now = new Clock().now();
    let format: LineFormat | undefined;
    let batch: PortableAccount[] = [];
    const commit = async (): Promise<void> => {
      if (batch.length === 0) return;
      const added = await (isDryRun ? accounts.findNewAccounts(batch) : insertBatch(accounts, batch, report.lines));
      report.imported += added.length;
      report.without_password += added.filter(({ passwordHash }) => !hasPassword(passwordHash)).length;
      report.existing += batch.length - added.length;
      batch = [];
    };
    try {
      for await (const line of splitLines(readBytes(file, descriptor, signal), MAX_LINE_BYTES)) {
        report.lines = line.number;
        if (format === undefined && line.text?.trim() !== '') {
          format = recognizeFormat(line.text);
          if (format !== 'json') continue;
        }
        const account = parseOrReport(line, report, now, format);
        if (account) batch.push(account);
        if (line.number % BATCH_SIZE !== 0) continue;
        await commit();
        progress.show(line.endsAt, line.number);
      }
    } catch (error) {
      // Only the header throws this here; refused accounts are in the report.
      if (error instanceof RefusedLineError)
        throw new CommandFailedError(`Nothing was imported: ${error.message}.`, error.code);
      report.interrupted = error instanceof Error && error.name === 'AbortError';
      if (!report.interrupted) throw error;
    }
    await commit();
    progress.clear();
    const { imported, without_password, existing, refused } = report;
    await accounts.finishImport({ imported, without_password, existing, refused });
    return report;
  });
}

/** @throws {CommandFailedError} which says what was imported */
async function insertBatch(accounts: AccountTransfer, batch: readonly PortableAccount[], lastLine: number) {
  return accounts.insertAccounts(batch).catch((error: unknown) => {
    if (!(error instanceof RefusedLineError)) throw error;
    const what = `${error.message}, among the ${batch.length} accounts up to line ${lastLine}`;
    throw new CommandFailedError(`${what}. None of these was imported, and those before were.`, error.code);
  });
}

/** The signal aborts the iteration, even while a pipe is silent: only a pipe is read without blocking. */
function readBytes(file: string, descriptor: number, signal: AbortSignal): AsyncIterable<Buffer> {
  const bytes = file === '-' ? process.stdin : createReadStream(file, { fd: descriptor });
  return addAbortSignal(signal, bytes) as AsyncIterable<Buffer>;
}

function parseOrReport(
  { text, number }: Line,
  report: ImportReport,
  now: Date,
  format: LineFormat | undefined,
): PortableAccount | undefined {
  try {
    if (text === undefined)
      throw new RefusedLineError(`it is not UTF-8, or longer than ${MAX_LINE_BYTES} bytes`, 'unreadable');
    if (text.trim() !== '') return parseAccountLine(text, now, format);
    report.blank += 1;
  } catch (error) {
    if (!(error instanceof RefusedLineError)) throw error;
    report.refused += 1;
    if (report.refused_lines.length < MAX_REPORTED_REFUSALS)
      report.refused_lines.push({ line: number, code: error.code, reason: error.message });
  }
  return undefined;
}

/**
 * Writes every account, one per line.
 * @param file a new file, which only its owner may read; undefined: standard output
 * @returns the number of accounts
 */
export async function exportUsers(file: string | undefined): Promise<number> {
  return withServices(readVariables(), ({ accounts }) => writeExport(file, accounts.readAccounts(), formatAccountLine));
}

interface Line {
  /** Counted from 1. */
  readonly number: number;
  /** Undefined when the line is too long or not UTF-8. */
  readonly text: string | undefined;
  /** The offset in the file of the end of this line, in bytes. */
  readonly endsAt: number;
}

const LINE_FEED = 0x0a;

/** Splits bytes at line feeds; holds one line of `maxBytes` at a time, so that the file may be of any size. */
export async function* splitLines(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Line> {
  let [number, endsAt] = [0, 0];
  let parts: Buffer[] = [];
  let length = 0;
  const take = (): Line => {
    number += 1;
    endsAt += length + 1;
    const bytes = Buffer.concat(parts);
    const text = length <= maxBytes && isUtf8(bytes) ? new TextDecoder().decode(bytes) : undefined;
    [parts, length] = [[], 0];
    return { number, text, endsAt };
  };
  const keep = (part: Buffer): void => {
    length += part.length;
    if (length <= maxBytes) parts.push(part);
    else parts = [];
  };
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      keep(chunk.subarray(start, end));
      start = end + 1;
      yield take();
    }
    keep(chunk.subarray(start));
  }
  if (length > 0) yield take();
}
