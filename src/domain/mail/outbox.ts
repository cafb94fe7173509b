import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { withAuditEvent, type AuditEvent } from '../audit/audit-events.js';
import { createId } from '../../foundation/common/ids.js';
import { toNetworks } from '../../foundation/common/network.js';
import { Environment } from '../../foundation/config/environment.js';
import { Database } from '../../foundation/database/database.js';
import type { MailKind, NoticeKind } from './templates.js';

interface OutboxRow<Kind> {
  readonly id: string;
  readonly kind: Kind;
  /** Canonical address. Without a `userId` it may have no account. */
  readonly recipient: string;
  /** The logged-in user who asked for the mail; null for an anonymous client. */
  readonly userId: string | null;
  /** Id of the HTTP request that asked for the mail. */
  readonly requestId: string | null;
}

/** A mail that is to be sent. It contains no token, which is issued when the mail is composed. */
export type MailRequest = OutboxRow<MailKind>;

/** Asks for an account. The worker replaces it by the mail that the address gets. */
export type AccountRequest = OutboxRow<'registration'>;

type Requester = Pick<Actor, 'requestId' | 'address'>;

interface AddedRequest extends Pick<MailRequest, 'kind' | 'recipient' | 'userId'> {
  readonly requester: Requester;
}

interface Notice {
  readonly kind: NoticeKind;
  readonly recipient: string;
}

export interface ClaimedMail extends MailRequest, Claimed {}
export type ClaimedRequest = ClaimedMail | (AccountRequest & Claimed);

interface Claimed {
  /** The networks that asked for the mail: IPv4 addresses and IPv6 /48. */
  readonly networks: readonly string[];
  readonly attempts: number;
  readonly isExpired: boolean;
  /** Text, because a Date would drop the microseconds. */
  readonly requestedAt: string;
}

/** The limits on the next request of a worker. */
export interface ClaimLimits {
  readonly busyNetworks: readonly string[];
  readonly busyDomains: readonly string[];
  /** Networks that had a turn in this round, and come after all others. */
  readonly servedNetworks: readonly string[];
  readonly mayTakeFirst: boolean;
  readonly mayTakeRetry: boolean;
}

/** Longer than a worker needs for one mail. The row of a killed worker is due again after it. */
const CLAIM_DURATION = '2 minutes';
/** A mail that could not be delivered for this long is given up. */
const MAX_MAIL_AGE = '24 hours';
/** The networks that are kept for one mail. The throttle of mails allows no address more requests within an hour. */
const MAX_NETWORKS = 10;

const COLUMNS = 'id, kind, recipient, request_id, networks, user_id';
/**
 * Keeps one pending mail of a kind for an address. A repetition writes too, so that its duration does not tell whether
 * a mail to an account still waits, and joins the queue of its own network without leaving the first one's.
 */
const ADD = {
  name: 'mail_requests_add',
  text: `INSERT INTO mail_requests AS known (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, NULL)
         ON CONFLICT (kind, recipient) WHERE user_id IS NULL DO UPDATE SET requested_at = excluded.requested_at,
           networks = (excluded.networks || array_remove(known.networks, excluded.networks[1]))[1:${MAX_NETWORKS}]`,
};
/**
 * Keeps one pending mail of a kind for a user. A newer request replaces the older one, even while that is being sent.
 */
const ADD_FOR_USER = `INSERT INTO mail_requests (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (user_id, kind) WHERE user_id IS NOT NULL DO UPDATE
  SET id = excluded.id, recipient = excluded.recipient, request_id = excluded.request_id,
      networks = excluded.networks, attempts = 0, created_at = excluded.created_at,
      requested_at = excluded.requested_at, next_attempt_at = excluded.next_attempt_at`;
/**
 * Keeps the first notice, which goes to the first of several former addresses, so that an attacker who changes the
 * address twice hides nothing.
 */
const ADD_NOTICE = `INSERT INTO mail_requests (${COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
  ON CONFLICT (user_id, kind) WHERE user_id IS NOT NULL DO NOTHING`;
/** Keeps the networks and the id of the HTTP request, so that the mail waits in the queue of the networks that asked. */
const REPLACE = `WITH asked AS (DELETE FROM mail_requests WHERE id = $1 RETURNING *)
  INSERT INTO mail_requests (${COLUMNS}) SELECT $2, $3, recipient, request_id, networks, $4 FROM asked
  ON CONFLICT (user_id, kind) WHERE user_id IS NOT NULL DO NOTHING`;
const WITHDRAW = 'DELETE FROM mail_requests WHERE user_id = $1 AND kind = $2';
/**
 * Takes first attempts before retries, and networks in turn. No lock outlives the statement: during the conversation
 * with the mail server the row is merely not due.
 */
const TAKE = {
  name: 'mail_requests_take',
  text: `UPDATE mail_requests SET attempts = attempts + 1, next_attempt_at = now() + interval '${CLAIM_DURATION}'
         WHERE id = (SELECT id FROM mail_requests
                     WHERE next_attempt_at <= now() AND NOT networks <@ $1::text[]
                       AND substring(recipient FROM '[^@]*$') <> ALL ($2::text[])
                       AND CASE WHEN attempts = 0 THEN $4::boolean ELSE $5::boolean END
                     ORDER BY attempts > 0, networks <@ $3::text[], next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING id, kind, recipient, user_id AS "userId", request_id AS "requestId", attempts, networks,
                   requested_at < now() - interval '${MAX_MAIL_AGE}' AS "isExpired", requested_at::text AS "requestedAt"`,
};
const HOLD = 'SELECT id FROM mail_requests WHERE id = $1 FOR SHARE';
/** Exponential backoff, half of which is random (jitter). */
const POSTPONE = {
  name: 'mail_requests_postpone',
  text: `UPDATE mail_requests SET next_attempt_at = now() + (0.5 + random() / 2) *
           least(interval '15 minutes', interval '15 seconds' * 2 ^ least(attempts - 1, 20)) WHERE id = $1`,
};
const RELEASE = {
  name: 'mail_requests_release',
  text: 'UPDATE mail_requests SET next_attempt_at = now() WHERE id = $1',
};
/** `$2` keeps a request that was repeated while its mail was being sent, so that it is sent again. */
const REMOVE = {
  name: 'mail_requests_remove',
  text: 'DELETE FROM mail_requests WHERE id = $1 AND requested_at = $2::timestamptz',
};
const REMOVE_WITH_EVENT = withAuditEvent({
  name: 'mail_requests_remove_with_event',
  text: 'DELETE FROM mail_requests WHERE id = $1 AND requested_at = $2::timestamptz RETURNING id',
});
const MEASURE = {
  name: 'mail_requests_measure',
  text: `SELECT count(*)::integer AS waiting,
           coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS seconds
         FROM mail_requests`,
};

@Injectable()
export class Outbox {
  private wake: () => void = () => undefined;

  constructor(
    private readonly database: Database,
    private readonly audit: AuditLog,
    private readonly environment: Environment,
  ) {}

  /** @param wake called after each added request */
  onAdded(wake: () => void): void {
    this.wake = wake;
  }

  /** Adds a request of an anonymous client, with the same statement for every address (enumeration). */
  async addRequest(kind: MailKind | AccountRequest['kind'], recipient: string, requester: Requester): Promise<void> {
    await this.database.rows(ADD, toValues(kind, recipient, requester));
    this.wake();
  }

  /** Adds a request in the transaction of the act that asks for it. */
  async addRequestWith(
    transaction: EntityManager,
    { kind, recipient, userId, requester }: AddedRequest,
  ): Promise<void> {
    const values = toValues(kind, recipient, requester);
    if (userId === null) await transaction.query(ADD.text, values);
    else await transaction.query(ADD_FOR_USER, [...values, userId]);
    this.wake();
  }

  /**
   * Adds a mail that tells a user what was done to the account. Without a mail server it adds none, because development
   * prints only mails with links.
   */
  async addNotice(
    transaction: EntityManager,
    { subject, actor }: Pick<AuditEvent, 'subject' | 'actor'>,
    { kind, recipient }: Notice,
  ): Promise<void> {
    if (!this.environment.mailUrl) return;
    const add = kind === 'email_set' ? ADD_FOR_USER : ADD_NOTICE;
    // Names no HTTP request, because none asked for the mail and its audit rows must not appear as those of the act.
    await transaction.query(add, [...toValues(kind, recipient, { ...actor, requestId: null }), subject]);
    this.wake();
  }

  async recordWithNotice(transaction: EntityManager, event: AuditEvent, notice: Notice): Promise<void> {
    await this.audit.record(transaction, event);
    await this.addNotice(transaction, event, notice);
  }

  /** Replaces a request by the mail to the user, which is due at once. */
  async replaceRequest(
    transaction: EntityManager,
    { id }: AccountRequest,
    { kind, userId }: Pick<AddedRequest, 'kind' | 'userId'>,
  ): Promise<void> {
    await transaction.query(REPLACE, [id, createId(), kind, userId]);
  }

  /** Removes a request that an act has voided. */
  async withdrawRequest(transaction: EntityManager, userId: string, kind: MailKind): Promise<void> {
    await transaction.query(WITHDRAW, [userId, kind]);
  }

  /** Claims a due request for this worker alone. */
  async claimNextRequest(limits: ClaimLimits): Promise<ClaimedRequest | undefined> {
    const { busyNetworks, busyDomains, servedNetworks, mayTakeFirst, mayTakeRetry } = limits;
    const values = [busyNetworks, busyDomains, servedNetworks, mayTakeFirst, mayTakeRetry];
    return this.database.row<ClaimedRequest>(TAKE, values);
  }

  /** Locks the request until the transaction ends. @returns whether it still exists */
  async holdRequest(transaction: EntityManager, { id }: MailRequest): Promise<boolean> {
    return (await transaction.query<unknown[]>(HOLD, [id])).length > 0;
  }

  /** After a failed attempt: the mail is due again after a backoff. */
  async postponeRequest({ id }: MailRequest): Promise<void> {
    await this.database.rows(POSTPONE, [id]);
  }

  /** After an attempt that a stop interrupted: the mail is due at once. */
  async releaseRequest({ id }: MailRequest): Promise<void> {
    await this.database.rows(RELEASE, [id]);
  }

  /** @param event recorded together with the removal */
  async removeRequest({ id, requestedAt }: ClaimedMail, event?: AuditEvent): Promise<void> {
    if (event) await this.audit.execute(REMOVE_WITH_EVENT, [id, requestedAt], event);
    else await this.database.rows(REMOVE, [id, requestedAt]);
  }

  /** @returns the number of waiting mails, and the seconds that the oldest one has waited */
  async measureBacklog(): Promise<{ readonly waiting: number; readonly seconds: number }> {
    return (await this.database.row(MEASURE, [])) ?? { waiting: 0, seconds: 0 };
  }
}

/** Stores the widest network, because one customer has all networks of an IPv6 /48. */
function toValues(
  kind: MailKind | AccountRequest['kind'],
  recipient: string,
  { requestId, address }: Requester,
): unknown[] {
  return [createId(), kind, recipient, requestId, toNetworks(address).slice(-1)];
}
