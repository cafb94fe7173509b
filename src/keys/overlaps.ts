import type { SecretDigest } from '../crypto/secret.js';
import { isWriteRefusal } from '../database/database-failure.js';
import type { Database, Statement } from '../database/database.js';
import { toErrorFields } from '../logging/log-line.js';
import type { Log } from '../logging/log.js';
import type { UsedKeyTable } from './key-statements.js';

/** Ends the old key of a rotation at the first use of the new one. */
export class Overlaps {
  private readonly statement: Statement;
  /** Logs the first failure only: every use of a key during an overlap may fail alike. */
  private canEnd = true;

  constructor(
    private readonly database: Database,
    table: UsedKeyTable['name'],
    private readonly log: Log,
  ) {
    this.statement = {
      name: `${table}_end_overlap`,
      text: `UPDATE ${table} SET previous_key_digest = NULL, previous_key_expires_at = NULL,
             overlap_ended_at = LEAST(previous_key_expires_at, $3)
         WHERE id = $1 AND key_digest = $2 RETURNING id`,
    };
  }

  /** @returns false when another rotation has replaced the key meanwhile: the row has to be read again */
  async end(id: string, currentDigest: SecretDigest, now: Date): Promise<boolean> {
    try {
      const ended = await this.database.row(this.statement, [id, currentDigest, now]);
      this.canEnd = true;
      return ended !== undefined;
    } catch (error) {
      // Read-only database: the key is valid, and the overlap ends at its deadline.
      if (!isWriteRefusal(error)) throw error;
      if (this.canEnd) this.log.warn('overlap_not_ended', { error: toErrorFields(error) });
      this.canEnd = false;
      return true;
    }
  }
}
