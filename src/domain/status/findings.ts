/**
 * Findings: what needs a person, worst first. The first page of the console and the operators' API show the same. Each
 * check reads a few rows by an index. A check that the operator's scopes do not cover is left out.
 */
import { Injectable } from '@nestjs/common';
import { KEY_KIND_NAMES, KEY_KINDS, type KeyKindName } from '../../foundation/common/key-kinds.js';
import type { OperatorScope } from '../../foundation/common/names.js';
import { UNUSED_DAYS } from '../../foundation/config/limits.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database } from '../../foundation/database/database.js';
import { SubscriptionsService, type UnreadDeletions } from '../events/subscriptions.service.js';
import { isLiveAt } from '../keys/key-record.js';
import { BackgroundWork } from '../maintenance/background-work.js';
import { IS_EXPIRING } from './expiring-keys.js';
import { CHECK_NAMES, CHECKS, createWarning, NUMBER_FORMAT, type Check, type Finding } from './finding.js';
import { Guesses } from './guesses.js';

const MAX_PER_CHECK = 5;
const OLD_KEY_NOTICE_HOURS = 6;
const DAY_MS = 86_400_000;

export interface Report {
  readonly at: Date;
  readonly checked: Check[];
  readonly findings: Finding[];
}

const FIND_WRONG_CLOCKS = {
  name: 'findings_wrong_clocks',
  text: `SELECT host, max(clock_skew_seconds)::float8 AS skew FROM hourly_counts
    WHERE hour >= $1::timestamptz - interval '2 hours' AND seen_at > now() - interval '5 minutes'
      AND abs(clock_skew_seconds) > 30 GROUP BY host ORDER BY max(abs(clock_skew_seconds)) DESC LIMIT ${MAX_PER_CHECK}`,
};
/** Finds a WAL archive that is behind, of which PostgreSQL keeps a record. The service cannot see other backups. */
const READ_ARCHIVER = {
  name: 'findings_archiver',
  text: `SELECT last_failed_time AS since FROM pg_stat_archiver WHERE current_setting('archive_mode') <> 'off'
    AND last_failed_time > COALESCE(last_archived_time, '-infinity')`,
};
const FIND_SILENT = {
  name: 'findings_silent_verifiers',
  text: `SELECT app_id AS id, caller, polled_at AS since FROM verifier_polls JOIN app_credentials ON id = app_id
    WHERE polled_at < now() - interval '5 minutes' AND polled_at > now() - interval '7 days'
      AND ${isLiveAt('now()')} ORDER BY polled_at LIMIT ${MAX_PER_CHECK}`,
};
/** A rotation or other scopes do not make the pair used, so `updated_at` does not count. */
const FIND_UNUSED_FOR_USERS = {
  name: 'findings_unused_for_users',
  text: `SELECT id, caller, target, for_users_used_at AS since FROM app_credentials
    WHERE for_users AND ${isLiveAt('$1')}
      AND GREATEST(created_at, for_users_changed_at, for_users_used_at) < $1::timestamptz - interval '${UNUSED_DAYS} days'
    ORDER BY caller, target LIMIT ${MAX_PER_CHECK}`,
};
/** Begins at the disabled users, because they are few and an index lists them. */
const FIND_WITHOUT_ADMIN = {
  name: 'findings_households_without_admin',
  text: `SELECT id, name FROM households WHERE id IN
      (SELECT household_id FROM household_members JOIN users ON users.id = user_id
       WHERE role = 'admin' AND NOT is_active)
    AND NOT EXISTS (SELECT FROM household_members JOIN users ON users.id = user_id
      WHERE household_id = households.id AND role = 'admin' AND is_active) ORDER BY id LIMIT ${MAX_PER_CHECK}`,
};
interface KeyRow extends Partial<Record<'room' | 'name' | 'caller' | 'target', string>> {
  readonly id: string;
  readonly until: Date;
  readonly used_at: Date | null;
}

interface UnusedForUsersRow extends Record<'id' | 'caller' | 'target', string> {
  readonly since: Date | null;
}

const findExpiring = (kind: KeyKindName) => ({
  name: `findings_${KEY_KINDS[kind].table}_expiring`,
  text: `SELECT *, expires_at AS until, last_used_at AS used_at FROM ${KEY_KINDS[kind].table}
    WHERE ${IS_EXPIRING} ORDER BY LEAST(expires_at, revoked_at) LIMIT ${MAX_PER_CHECK + 1}`,
});
const findOldUsed = (kind: KeyKindName) => ({
  name: `findings_${KEY_KINDS[kind].table}_old_used`,
  text: `SELECT *, previous_key_expires_at AS until, previous_key_used_at AS used_at FROM ${KEY_KINDS[kind].table}
    WHERE previous_key_expires_at > $1
      AND previous_key_expires_at < $1::timestamptz + interval '${OLD_KEY_NOTICE_HOURS} hours'
      AND previous_key_used_at > rotated_at AND revoked_at IS NULL ORDER BY previous_key_expires_at LIMIT ${MAX_PER_CHECK + 1}`,
});

@Injectable()
export class Findings {
  constructor(
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly guesses: Guesses,
    private readonly work: BackgroundWork,
    private readonly subscriptions: SubscriptionsService,
  ) {}

  /** @param mayRead whether an operator may read what this scope shows */
  async report(mayRead: (scope: OperatorScope) => boolean): Promise<Report> {
    const at = await this.clock.compareClocks();
    const kinds = KEY_KIND_NAMES.filter((kind) => mayRead(KEY_KINDS[kind].scope));
    const found = await Promise.all([
      mayRead('read') ? this.findPlatform(at) : [],
      mayRead('apps') ? this.findSilentVerifiers() : [],
      mayRead('apps') ? this.findUnreadDeletions(at) : [],
      mayRead('apps') ? this.findUnusedForUsers(at) : [],
      mayRead('nodes') ? this.findHouseholdsWithoutAdmin() : [],
      ...kinds.map((kind) => this.findKeys('old_key_used', kind, findOldUsed(kind), at)),
      ...kinds.map((kind) => this.findKeys('key_expires', kind, findExpiring(kind), at)),
    ]);
    const checked = CHECK_NAMES.filter((check) => {
      const scope = CHECKS[check];
      return scope === undefined ? kinds.length > 0 : mayRead(scope);
    });
    const rank = ({ check, severity }: Finding): number =>
      CHECK_NAMES.indexOf(check) + (severity === 'critical' ? 0 : CHECK_NAMES.length);
    return { at, checked, findings: found.flat().toSorted((one, other) => rank(one) - rank(other)) };
  }

  private async findPlatform(at: Date): Promise<Finding[]> {
    const [guesses, clocks, archiver, work] = await Promise.all([
      this.guesses.findGuesses(at),
      this.database.rows<{ host: string; skew: number }>(FIND_WRONG_CLOCKS, [at]),
      this.database.rows<{ since: Date }>(READ_ARCHIVER, []),
      this.work.measureWork(),
    ]);
    return [
      ...guesses,
      ...clocks.map(({ host, skew }): Finding => ({
        check: 'clock',
        severity: 'critical',
        subject: { type: 'host', id: host, name: host },
        detail: `Its clock differs from PostgreSQL's by ${Math.round(skew)} s. Beyond 60 s the replica answers 503.`,
        since: null,
        until: null,
      })),
      ...archiver.map(({ since }): Finding => ({
        check: 'backup',
        severity: 'critical',
        subject: null,
        detail: 'PostgreSQL fails to archive its log, so the backup does not grow.',
        since,
        until: null,
      })),
      ...work.flatMap(({ name, seconds, is_overdue }): Finding[] => {
        if (!is_overdue) return [];
        const check = name.startsWith('mail') ? 'mail' : name === 'audit_unsealed_seconds' ? 'seals' : 'maintenance';
        const detail = `${name.replace(/_seconds$/, '').replaceAll('_', ' ')}: ${Math.floor(seconds / 60)} min.`;
        const since = new Date(at.getTime() - seconds * 1_000);
        return [{ check, severity: 'critical', subject: null, detail, since, until: null }];
      }),
    ];
  }

  private async findSilentVerifiers(): Promise<Finding[]> {
    const rows = await this.database.rows<{ id: string; caller: string; since: Date }>(FIND_SILENT, []);
    const detail = 'Its verifiers no longer poll for changes: the service is down, or validates each call here.';
    return rows.map(({ id, caller, since }) =>
      createWarning({ check: 'silent_verifiers', subject: { type: 'app', id, name: caller }, detail, since }),
    );
  }

  private async findUnreadDeletions(at: Date): Promise<Finding[]> {
    const all = await this.subscriptions.listUnreadDeletions();
    return all.flatMap((deletions) => toUnreadDeletions(deletions, at)).slice(0, MAX_PER_CHECK);
  }

  private async findUnusedForUsers(at: Date): Promise<Finding[]> {
    const rows = await this.database.rows<UnusedForUsersRow>(FIND_UNUSED_FOR_USERS, [at]);
    const detail = `It is for users, and got no token for one in ${UNUSED_DAYS} days: set for_users to false, or remove it from the map.`;
    return rows.map((row) => {
      const subject = { type: 'app', id: row.id, name: KEY_KINDS.app.toOwner(row) } as const;
      return createWarning({ check: 'unused_for_users', subject, detail, since: row.since });
    });
  }

  private async findHouseholdsWithoutAdmin(): Promise<Finding[]> {
    const rows = await this.database.rows<{ id: string; name: string | null }>(FIND_WITHOUT_ADMIN, []);
    const detail = 'Its last admin is disabled: make another member its admin.';
    return rows.map(({ id, name }) =>
      createWarning({ check: 'household_without_admin', subject: { type: 'household', id, name: name ?? id }, detail }),
    );
  }

  /** The last of more than {@link MAX_PER_CHECK} keys stands for all further ones. */
  private async findKeys(
    check: 'old_key_used' | 'key_expires',
    kind: KeyKindName,
    statement: { name: string; text: string },
    at: Date,
  ): Promise<Finding[]> {
    const rows = await this.database.rows<KeyRow>(statement, [at]);
    const found = rows.slice(0, MAX_PER_CHECK).map((row) => {
      const used = row.used_at ? `was last used at ${row.used_at.toISOString()}` : 'was never used';
      const detail = check === 'old_key_used' ? `Its old key ends soon, and ${used}.` : `Its key expires, and ${used}.`;
      const subject = { type: kind, id: row.id, name: KEY_KINDS[kind].toOwner(row) };
      return createWarning({ check, subject, detail, until: row.until });
    });
    const further = rows[MAX_PER_CHECK];
    if (!further) return found;
    const subject = { type: kind, id: '', name: `more of ${KEY_KINDS[kind].title.toLowerCase()}` };
    return [...found, createWarning({ check, subject, detail: 'The list has all of them.', until: further.until })];
  }
}

function toUnreadDeletions({ service, count, since }: UnreadDeletions, at: Date): Finding[] {
  const days = Math.floor((at.getTime() - since.getTime()) / DAY_MS);
  if (days < 1) return [];
  const [deletions, forDays] = [count === 1 ? 'deletion' : 'deletions', days === 1 ? 'a day' : `${days} days`];
  const detail = `It has not read ${NUMBER_FORMAT.format(count)} ${deletions} of users for ${forDays}.`;
  const subject = { type: 'service', id: service, name: service } as const;
  return [createWarning({ check: 'unread_deletions', subject, detail, since })];
}
