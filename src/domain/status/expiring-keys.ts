/** Keys that expire soon: a finding names the first of them, and a gauge counts them all. */
import { Injectable } from '@nestjs/common';
import { KEY_KIND_NAMES, KEY_KINDS } from '../../foundation/common/key-kinds.js';
import { EXPIRY_NOTICE_DAYS } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database } from '../../foundation/database/database.js';
import { cacheQuery, MetricsRegistry } from '../../foundation/metrics/metrics-registry.js';

/** At `$1`. Uses the index of keys that expire or are revoked, whose expression this repeats: `LEAST` ignores null. */
export const IS_EXPIRING = `LEAST(expires_at, revoked_at) > $1 AND revoked_at IS NULL
  AND LEAST(expires_at, revoked_at) < $1::timestamptz + interval '${EXPIRY_NOTICE_DAYS} days'`;

const COUNT_EXPIRING = {
  name: 'findings_count_expiring',
  text: `SELECT ${KEY_KIND_NAMES.map(
    (kind) => `(SELECT count(*) FROM ${KEY_KINDS[kind].table} WHERE ${IS_EXPIRING})`,
  ).join(' + ')} AS count`,
};

@Injectable()
export class ExpiringKeysGauge {
  constructor(
    private readonly database: Database,
    private readonly clock: ComparedClock,
    metrics: MetricsRegistry,
  ) {
    const count = cacheQuery(() => this.countExpiringKeys());
    const help = `Live keys of nodes, apps and operators that expire within ${EXPIRY_NOTICE_DAYS} days.`;
    // Every process counts the same rows, so the values of several are aggregated by the maximum.
    metrics.addGauge('keys_expiring', help, count, 'max');
  }

  private async countExpiringKeys(): Promise<number> {
    const row = await this.database.row<{ count: string }>(COUNT_EXPIRING, [await this.clock.compareClocks()]);
    return Number(row?.count);
  }
}
