import { Injectable } from '@nestjs/common';
import { Database } from '../../foundation/database/database.js';
import { Log } from '../../foundation/logging/log.js';
import { DeferredWrites } from '../audit/deferred-writes.js';

/** Ids in one order, so that two replicas cannot deadlock. */
const RECORD = {
  name: 'verifier_polls_record',
  text: `INSERT INTO verifier_polls (app_id, polled_at)
    SELECT id, now() FROM app_credentials WHERE id = ANY ($1::uuid[]) ORDER BY id
    ON CONFLICT (app_id) DO UPDATE SET polled_at = excluded.polled_at`,
};

/** Records which app credentials poll for changes: collected in memory, and written every 30 seconds. */
@Injectable()
export class VerifierPolls extends DeferredWrites<readonly string[]> {
  private polled = new Set<string>();

  constructor(
    private readonly database: Database,
    log: Log,
  ) {
    super('verifier_polls_not_recorded', log);
  }

  /** @param appId of a credential that was accepted */
  notePoll(appId: string): void {
    this.polled.add(appId);
  }

  protected takeBatches(): (readonly string[])[] {
    const polled = [...this.polled];
    this.polled = new Set();
    return polled.length > 0 ? [polled] : [];
  }

  protected async writeBatch(polled: readonly string[]): Promise<void> {
    await this.database.rows(RECORD, [polled]);
  }

  protected putBack(unwritten: readonly (readonly string[])[]): void {
    for (const appId of unwritten.flat()) this.polled.add(appId);
  }
}
