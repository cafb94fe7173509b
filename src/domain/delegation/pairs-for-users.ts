/** The pairs of services that are for users, as the exchange needs them: which are live, and when each was last used. */
import { Injectable, type OnModuleInit } from '@nestjs/common';
import type { Actor } from '../../foundation/access/actor.js';
import { Environment } from '../../foundation/config/environment.js';
import { DELEGATION_ISSUER_DETAIL, isDelegationIssuer } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { batchReads, Database } from '../../foundation/database/database.js';
import { withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isLiveAt } from '../keys/key-record.js';

/** The recorded last use of a pair may be this old, so that most exchanges write nothing. */
const USE_INTERVAL_MS = 60 * 60_000;

const READ_PAIRS = {
  name: 'app_credentials_read_pairs_for_users',
  text: `SELECT id, caller, target, scopes, expires_at, for_users_used_at, for_users_revision FROM app_credentials
    WHERE (caller, target) IN (SELECT * FROM unnest($1::text[], $2::text[]))
      AND for_users AND ${isLiveAt('$3::timestamptz')}`,
};

const RECORD_FIRST_USE = withAuditEvent({
  name: 'app_credentials_first_used_for_users',
  text: 'UPDATE app_credentials SET for_users_used_at = $2 WHERE id = $1 AND for_users_used_at IS NULL RETURNING id',
});
const RECORD_USE = {
  name: 'app_credentials_used_for_users',
  text: 'UPDATE app_credentials SET for_users_used_at = $2 WHERE id = $1 AND for_users_used_at < $2',
};
const HAS_PAIRS_FOR_USERS = {
  name: 'app_credentials_has_pairs_for_users',
  text: 'SELECT 1 FROM app_credentials WHERE for_users AND revoked_at IS NULL LIMIT 1',
};

interface NamedPair {
  readonly caller: string;
  readonly target: string;
}

interface PairForUsers extends NamedPair {
  readonly id: string;
  readonly scopes: readonly string[];
  readonly expires_at: Date | null;
  readonly for_users_used_at: Date | null;
  readonly for_users_revision: number;
}

@Injectable()
export class PairsForUsers implements OnModuleInit {
  /** @returns undefined when no live pair of this caller and this target is for users */
  readonly findPair = batchReads<NamedPair, PairForUsers>((asked) => this.readPairs(asked));

  constructor(
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
    private readonly clock: ComparedClock,
  ) {}

  async onModuleInit(): Promise<void> {
    if (isDelegationIssuer(this.environment.jwtIssuer)) return;
    if (await this.database.row(HAS_PAIRS_FOR_USERS, []))
      throw new Error(`JWT_ISSUER: a pair of services is for users, which ${DELEGATION_ISSUER_DETAIL}`);
  }

  async recordUse({ id, caller, target, for_users_used_at: usedAt }: PairForUsers, actor: Actor): Promise<void> {
    const time = this.clock.now();
    if (usedAt && time.getTime() - usedAt.getTime() < USE_INTERVAL_MS) return;
    if (usedAt) await this.database.rows(RECORD_USE, [id, time]);
    else {
      const fields = { app_id: id, calling_service: caller, called_service: target };
      const event = { event: 'token.exchange.first_used', actor, time, subject: id, logFields: fields } as const;
      await this.audit.execute(RECORD_FIRST_USE, [id, time], event);
    }
  }

  private async readPairs(asked: readonly NamedPair[]): Promise<(PairForUsers | undefined)[]> {
    const [callers, targets] = [asked.map(({ caller }) => caller), asked.map(({ target }) => target)];
    const rows = await this.database.rows<PairForUsers>(READ_PAIRS, [callers, targets, this.clock.now()]);
    const toKey = ({ caller, target }: NamedPair): string => `${caller} ${target}`;
    const found = new Map(rows.map((row) => [toKey(row), row]));
    return asked.map((pair) => found.get(toKey(pair)));
  }
}
