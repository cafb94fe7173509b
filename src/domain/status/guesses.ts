/** The finding of wrong guesses: who guesses, or whose account is guessed at, and whether it goes on. */
import { Injectable } from '@nestjs/common';
import { isId } from '../../foundation/common/ids.js';
import { Database } from '../../foundation/database/database.js';
import { REFUSAL_WINDOWS } from '../audit/counted-refusals.js';
import { NUMBER_FORMAT, type Finding } from './finding.js';
import { HourlyCounts } from './hourly-counts.js';

const MINUTE_MS = 60_000;

/** Four windows of counted refusals. */
const GUESS_MINUTES = 60;
/** A throttled attack has its next guess verified when a window of 15 minutes ends, so it is seen at least that often. */
const GOING_ON_MINUTES = 16;
/** Fewer wrong guesses in an hour are those of users who mistype. */
const MIN_GUESSES = 20;
/** Fewer throttled guesses are those of a client that keeps retrying an old password. */
const MIN_THROTTLED = 100;
/** While {@link MIN_THROTTLED} guesses are throttled, few verified ones are enough to name the attacker. */
const MIN_GUESSES_OF_THROTTLED = 2;

const EVENTS = `ARRAY['user.login.failed', 'user.second_factor.failed', 'admin.key.refused']`;
/** Limits the findings of each side, and the names of the other side in each. */
const MAX_NAMED = 5;

/** The guesses of one address, or those at one account. */
interface GuessRow {
  readonly side: 'address' | 'subject';
  readonly name: string;
  readonly guesses: number;
  /** The number of different accounts of an address, or of addresses at an account; `most`: the most frequent ones. */
  readonly others: number;
  readonly most: readonly string[] | null;
  readonly since: Date;
  readonly last_at: Date;
}

const group = (side: string, other: string): string => `
  (SELECT '${side}' AS side, ${side} AS name, sum(count)::integer AS guesses, count(${other})::integer AS others,
     (array_agg(${other} ORDER BY count DESC) FILTER (WHERE ${other} IS NOT NULL))[1:${MAX_NAMED}] AS most,
     min(since) AS since, max(last_at) AS last_at
   FROM (SELECT ${side}, ${other}, sum(count) AS count, min(time) AS since, max(last_at) AS last_at FROM guesses
         WHERE ${side} IS NOT NULL GROUP BY ${side}, ${other}) AS pairs
   GROUP BY ${side} ORDER BY guesses DESC LIMIT ${MAX_NAMED})`;

/** `$1`: PostgreSQL's time as this replica reads it. A window begins up to 15 minutes before its last guess. */
const FIND_GUESSES = {
  name: 'findings_guesses',
  text: `WITH guesses AS MATERIALIZED (
      SELECT subject, COALESCE(of_address.key, address) AS address, COALESCE(of_address.value::numeric, count) AS count,
        time, last_at
      FROM ${REFUSAL_WINDOWS} AS windows LEFT JOIN LATERAL jsonb_each_text(addresses) AS of_address ON true
      WHERE event = ANY (${EVENTS}) AND last_at > $1::timestamptz - interval '${GUESS_MINUTES} minutes'
        AND time > $1::timestamptz - interval '${GUESS_MINUTES + 15} minutes')
    ${group('address', 'subject')} UNION ALL ${group('subject', 'address')}`,
};
const FIND_EMAILS = { name: 'findings_emails', text: 'SELECT id, email FROM users WHERE id = ANY ($1::uuid[])' };

@Injectable()
export class Guesses {
  constructor(
    private readonly database: Database,
    private readonly counts: HourlyCounts,
  ) {}

  async findGuesses(at: Date): Promise<Finding[]> {
    const [rows, hours] = await Promise.all([
      this.database.rows<GuessRow>(FIND_GUESSES, [at]),
      this.counts.listHours(2),
    ]);
    const throttled = hours.reduce((sum, hour) => sum + hour.throttled_guesses, 0);
    const least = throttled >= MIN_THROTTLED ? MIN_GUESSES_OF_THROTTLED : MIN_GUESSES;
    // Guesses at an account from a single address are shown with that address.
    const attacks = rows.filter(({ side, others, guesses }) => guesses >= least && (side === 'address' || others > 1));
    const emails = await this.readEmails(attacks);
    const more =
      throttled > 0 ? ` ${NUMBER_FORMAT.format(throttled)} more guesses were throttled in this hour and the last.` : '';
    const found = attacks.map((attack, index) => toGuessFinding(attack, at, emails, index === 0 ? more : ''));
    if (found.length > 0 || throttled < MIN_THROTTLED) return found;
    const detail = `${NUMBER_FORMAT.format(throttled)} guesses were throttled in this hour and the last.`;
    return [
      { check: 'guesses', severity: 'critical', subject: null, detail, since: hours[0]?.hour ?? null, until: null },
    ];
  }

  private async readEmails(attacks: readonly GuessRow[]): Promise<Map<string, string>> {
    const ids = attacks.flatMap(({ name, most }) => [name, ...(most ?? [])]).filter(isId);
    const users = await this.database.rows<{ id: string; email: string }>(FIND_EMAILS, [ids]);
    return new Map(users.map(({ id, email }) => [id, email]));
  }
}

function toGuessFinding(attack: GuessRow, at: Date, emails: ReadonlyMap<string, string>, more: string): Finding {
  const { side, name, guesses, since, last_at } = attack;
  const isGoingOn = at.getTime() - last_at.getTime() < GOING_ON_MINUTES * MINUTE_MS;
  const toName = (id: string): string =>
    emails.get(id) ?? (id.startsWith('unknown:') ? 'an address without an account' : id);
  const whom = side === 'address' ? describeAccounts(attack, toName) : describeAddresses(attack);
  const state = isGoingOn ? 'still going on' : `the last one at ${last_at.toISOString()}`;
  return {
    check: 'guesses',
    severity: isGoingOn ? 'critical' : 'warning',
    subject: { type: side === 'address' ? 'address' : 'user', id: name, name: toName(name) },
    detail: `${NUMBER_FORMAT.format(guesses)} wrong guesses ${whom}; ${state}.${more}`,
    since,
    until: null,
  };
}

function describeAccounts({ others, most }: GuessRow, toName: (id: string) => string): string {
  const first = toName(most?.[0] ?? '');
  return others === 1 ? `at ${first}` : `at ${others} accounts, most at ${first}`;
}

/** A row of the audit log names five addresses at most, so there may have been more than were counted. */
function describeAddresses({ others, most }: GuessRow): string {
  return `from ${others}${others < MAX_NAMED ? '' : ' or more'} addresses, most from ${most?.join(', ')}`;
}
