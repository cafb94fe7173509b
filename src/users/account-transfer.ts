import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { COMMAND_LINE } from '../access/actor.js';
import type { AuditEventName } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { createId } from '../common/ids.js';
import type { PortableAccount } from './portable-account.js';

/** An account whose address or id exists stays as it is: a repeated import goes on where the one before ended. */
const INSERT = `INSERT INTO users (id, email, password_hash, is_active, email_verified_at, created_at, updated_at)
  SELECT id, email, password_hash, is_active, CASE WHEN is_email_verified THEN $7::timestamptz END, created_at, $7
  FROM unnest($1::uuid[], $2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::timestamptz[])
    AS given(id, email, password_hash, is_active, is_email_verified, created_at)
  ON CONFLICT DO NOTHING RETURNING id`;

/** In the order in which they are given. */
const FIND_NEW = `SELECT id, email
  FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS given(id, email, line)
  WHERE NOT EXISTS (SELECT FROM users WHERE users.email = given.email)
    AND NOT EXISTS (SELECT FROM users WHERE users.id = given.id)
  ORDER BY line`;

const READ = `SELECT id, email, password_hash AS "passwordHash", is_active AS "isActive",
    email_verified_at IS NOT NULL AS "isEmailVerified", created_at AS "createdAt"
  FROM users WHERE $1::uuid IS NULL OR id > $1 ORDER BY id LIMIT $2`;

const PAGE_SIZE = 1_000;
/** Addresses and ids that a dry run remembers, about 100 MB. Beyond that, a repetition counts as new. */
const MAX_COUNTED = 1_000_000;

/** What a run of an import has done so far. */
export interface ImportCounts {
  imported: number;
  existing: number;
  refused: number;
}

/**
 * Moves accounts in and out in bulk, for the command line. A run is recorded in the audit log: an import with its first
 * batch, and again with its counts when it ends, so that a run that was killed shows too; an export before its first page.
 */
@Injectable()
export class AccountTransfer {
  private readonly runId = createId();
  private isStarted = false;
  /** What {@link countNew} counted: the addresses and ids that would exist by then. */
  private readonly counted = new Set<string>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /** Commits a batch. @returns the number of accounts that did not exist before */
  async insert(batch: readonly PortableAccount[]): Promise<number> {
    return this.dataSource.transaction(async (transaction) => {
      const rows = await transaction.query<unknown[]>(INSERT, [...toColumns(batch), this.clock.now()]);
      if (rows.length > 0 && !this.isStarted) {
        await this.record(transaction, 'users.import_started', {});
        this.isStarted = true;
      }
      return rows.length;
    });
  }

  /** @returns the number of accounts that an import would add, after the batches that were counted before */
  async countNew(batch: readonly PortableAccount[]): Promise<number> {
    const given = [batch.map(({ id }) => id), batch.map(({ email }) => email)];
    let count = 0;
    for (const { id, email } of await this.dataSource.query<{ id: string; email: string }[]>(FIND_NEW, given)) {
      if (this.counted.has(id) || this.counted.has(email)) continue;
      count += 1;
      if (this.counted.size < MAX_COUNTED) this.counted.add(id).add(email);
    }
    return count;
  }

  /** Records the end of an import that added an account. */
  async finish(counts: ImportCounts): Promise<void> {
    if (!this.isStarted) return;
    await this.dataSource.transaction((transaction) => this.record(transaction, 'users.imported', { ...counts }));
  }

  /** Reads all accounts in the order of their ids. Accounts that are created meanwhile may be missing. */
  async *read(): AsyncGenerator<PortableAccount[]> {
    await this.dataSource.transaction(async (transaction) => {
      const [row] = await transaction.query<{ count: number }[]>('SELECT count(*)::integer AS count FROM users');
      await this.record(transaction, 'users.exported', { accounts: row?.count ?? 0 });
    });
    let page = await this.readAfter(null);
    for (let last = page.at(-1); last; last = page.at(-1)) {
      yield page;
      page = await this.readAfter(last.id);
    }
  }

  private async readAfter(id: string | null): Promise<PortableAccount[]> {
    return this.dataSource.query<PortableAccount[]>(READ, [id, PAGE_SIZE]);
  }

  private async record(
    transaction: EntityManager,
    event: Extract<AuditEventName, `users.${string}`>,
    details: Record<string, unknown>,
  ): Promise<void> {
    const time = this.clock.now();
    await this.audit.record(transaction, { event, actor: COMMAND_LINE, time, subject: this.runId, details });
  }
}

function toColumns(batch: readonly PortableAccount[]): unknown[] {
  return [
    batch.map(({ id }) => id),
    batch.map(({ email }) => email),
    batch.map(({ passwordHash }) => passwordHash),
    batch.map(({ isActive }) => isActive),
    batch.map(({ isEmailVerified }) => isEmailVerified),
    batch.map(({ createdAt }) => createdAt),
  ];
}
