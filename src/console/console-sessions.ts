/**
 * The sessions of the console: an operator's key, or the root key, is exchanged for a random token in a cookie, of
 * which only the digest is stored. Invariants: a session ends when its key is no longer the current one, or its passkey
 * is removed, or it began without one and the operator adds one, from the next request on, on every replica; and after
 * 30 minutes without a request, or 8 hours (ASVS 7.3.1, 7.3.2).
 */
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DataSource } from 'typeorm';
import { toActor } from '../foundation/access/actor.js';
import type { AdminPrincipal, OperatorIdentity } from '../foundation/access/principals.js';
import { withAuditEvent, type AuditEvent } from '../domain/audit/audit-events.js';
import { AuditLog } from '../domain/audit/audit-log.js';
import type { VerifiedAnswer } from '../domain/operators/operator-passkeys.service.js';
import { addSeconds } from '../foundation/common/clock.js';
import { Environment } from '../foundation/config/environment.js';
import {
  computeDigest,
  computeMac,
  generateSecret,
  isSameDigest,
  isSameSecret,
  type SecretDigest,
} from '../foundation/crypto/secret.js';
import { ComparedClock } from '../foundation/database/compared-clock.js';
import { batchReads, Database } from '../foundation/database/database.js';
import { isRefusal, determineKeyStatus, listKeyColumns, type KeyRow } from '../domain/keys/key-lifecycle.js';

const IDLE_SECONDS = 30 * 60;
const MAX_SECONDS = 8 * 3_600;
/** For so long after a proof of who the operator is, acts do not ask for another one. */
const CONFIRMED_SECONDS = 5 * 60;
/** The most sessions of one operator, or of the root key; the oldest one ends. */
const MAX_SESSIONS = 10;
/** While a session is used, its row is written no more often than this. */
const SEEN_SECONDS = 60;
/** A sent form is remembered until this many others have followed it. */
const MAX_SENT_FORMS = 200;

const PURGE = {
  name: 'console_sessions_purge',
  text: 'DELETE FROM console_sessions WHERE created_at <= $1 OR seen_at <= $2',
};
const INSERT = withAuditEvent({
  name: 'console_sessions_insert',
  text: `INSERT INTO console_sessions (digest, operator_id, key_digest, created_at, seen_at, confirmed_at, passkey_id)
    VALUES ($1, $2, $3, $4, $4, $4, $5)
    RETURNING true`,
});
/** Sessions that ended with their key count too, until the purge deletes them. */
const TRIM = {
  name: 'console_sessions_trim',
  text: `DELETE FROM console_sessions WHERE digest IN (
    SELECT digest FROM console_sessions WHERE operator_id IS NOT DISTINCT FROM $1 AND digest <> $2
    ORDER BY created_at DESC OFFSET ${MAX_SESSIONS - 1})`,
};
const FIND = {
  name: 'console_sessions_find',
  text: `SELECT digest AS session_digest, session.key_digest AS session_key_digest, seen_at, confirmed_at, passkey_id,
      operators.name, scopes,
      ${listKeyColumns('operators')}
    FROM console_sessions AS session LEFT JOIN operators ON operators.id = session.operator_id
    WHERE digest = ANY ($1::bytea[]) AND session.created_at > $2 AND seen_at > $3
      AND (passkey_id IS NOT NULL
        OR NOT EXISTS (SELECT FROM operator_passkeys AS known WHERE known.operator_id = session.operator_id))`,
};
const SEE = { name: 'console_sessions_see', text: 'UPDATE console_sessions SET seen_at = $2 WHERE digest = $1' };
const CONFIRM = 'UPDATE console_sessions SET confirmed_at = $2 WHERE digest = $1';
const DELETE = withAuditEvent({
  name: 'console_sessions_delete',
  text: 'DELETE FROM console_sessions WHERE digest = $1 RETURNING true',
});
const CLAIM_FORM = {
  name: 'console_sessions_claim_form',
  text: `UPDATE console_sessions SET sent_forms = (array_prepend($2::uuid, sent_forms))[1:${MAX_SENT_FORMS}]
    WHERE digest = $1 AND NOT sent_forms @> ARRAY[$2::uuid] RETURNING true AS is_first`,
};
const RELEASE_FORM = {
  name: 'console_sessions_release_form',
  text: 'UPDATE console_sessions SET sent_forms = array_remove(sent_forms, $2::uuid) WHERE digest = $1',
};

type SessionRow = Readonly<Record<'session_digest' | 'session_key_digest', SecretDigest>> & {
  readonly seen_at: Date;
  readonly confirmed_at: Date;
  readonly passkey_id: string | null;
} & Partial<KeyRow & Omit<OperatorIdentity, 'keyDigest'>>;

export interface ConsoleSession {
  /** The value of the cookie. */
  readonly token: string;
  readonly principal: AdminPrincipal;
  /** Of the key with which the session began. */
  readonly keyDigest: SecretDigest;
  /** Whether it began with a passkey beside the key. */
  readonly hasPasskey: boolean;
  /** Whether the operator proved who they are in the last 5 minutes. */
  readonly isConfirmed: boolean;
}

@Injectable()
export class ConsoleSessions {
  /** Concurrent cookies share a statement, so that a flood of wrong ones leaves the pool free. */
  private readonly findRow = batchReads((digests: readonly SecretDigest[]) => this.findRows(digests));

  constructor(
    private readonly environment: Environment,
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly audit: AuditLog,
  ) {}

  /**
   * @param request of the principal, with the key of this digest
   * @param passkey undefined for an operator without any; {@link findSession} refuses the session if that is wrong
   * @returns the token of a new session; undefined when another call has used the answer of the passkey
   */
  async startSession(
    request: Request,
    principal: AdminPrincipal,
    keyDigest: SecretDigest,
    passkey?: VerifiedAnswer,
  ): Promise<string | undefined> {
    const token = generateSecret();
    const { now, oldest, idleSince } = this.readTimes();
    await this.database.rows(PURGE, [oldest, idleSince]);
    const [digest, operatorId] = [computeDigest(token), principal.operator?.id ?? null];
    const values = [digest, operatorId, keyDigest, now, passkey?.passkeyId ?? null];
    const details = passkey && { passkey_id: passkey.passkeyId };
    const event = { ...toEvent('admin.console.logged_in', request, principal), ...(details && { details }) };
    const hasBegun = await this.dataSource.transaction(async (transaction) => {
      if (passkey && !(await passkey.use(transaction))) return false;
      await this.audit.execute(INSERT, values, event, transaction);
      return true;
    });
    if (!hasBegun) return undefined;
    await this.database.rows(TRIM, [operatorId, digest]);
    return token;
  }

  /**
   * @param isActive whether the operator works, which extends the session to 30 minutes from now
   * @returns undefined when the session has ended, or never began
   */
  async findSession(token: string, isActive: boolean): Promise<ConsoleSession | undefined> {
    const digest = computeDigest(token);
    const row = await this.findRow(digest);
    const principal = row && this.toPrincipal(row);
    if (!principal) return undefined;
    const { now, confirmedSince } = this.readTimes();
    if (isActive && row.seen_at < addSeconds(now, -SEEN_SECONDS)) await this.database.rows(SEE, [digest, now]);
    const { session_key_digest: keyDigest, passkey_id, confirmed_at } = row;
    return { token, principal, keyDigest, hasPasskey: passkey_id !== null, isConfirmed: confirmed_at > confirmedSince };
  }

  /** The session may belong to another operator than the acting one, who logs in with the same browser. */
  async endSession(request: Request, token: string): Promise<void> {
    const ended = await this.findSession(token, false);
    if (!ended) return;
    const event = toEvent('admin.console.logged_out', request, ended.principal);
    await this.audit.execute(DELETE, [computeDigest(token)], event);
  }

  /**
   * Remembers that the operator has just proved again who they are.
   * @returns false when another call has used the answer of the passkey
   */
  async confirmSession({ token }: ConsoleSession, passkey?: VerifiedAnswer): Promise<boolean> {
    return this.dataSource.transaction(async (transaction) => {
      if (passkey && !(await passkey.use(transaction))) return false;
      await transaction.query(CONFIRM, [computeDigest(token), this.clock.trustedNow()]);
      return true;
    });
  }

  /** @returns false when this form was sent before in this session, or the session has ended */
  async claimForm({ token }: ConsoleSession, form: string): Promise<boolean> {
    return (await this.database.row(CLAIM_FORM, [computeDigest(token), form])) !== undefined;
  }

  async releaseForm({ token }: ConsoleSession, form: string): Promise<void> {
    await this.database.rows(RELEASE_FORM, [computeDigest(token), form]);
  }

  private toPrincipal(row: SessionRow): AdminPrincipal | undefined {
    const { session_key_digest: keyDigest, id, name, scopes } = row;
    if (id == null || name === undefined || scopes === undefined) {
      const { adminApiKey } = this.environment;
      const isCurrent = adminApiKey !== undefined && isSameDigest(keyDigest, computeDigest(adminApiKey));
      return isCurrent ? { door: 'admin', operator: null } : undefined;
    }
    const status = determineKeyStatus(keyDigest, row as KeyRow, this.clock);
    if (isRefusal(status) || status === 'previous') return undefined;
    return { door: 'admin', operator: { id, name, scopes, keyDigest } };
  }

  private async findRows(digests: readonly SecretDigest[]): Promise<(SessionRow | undefined)[]> {
    const { oldest, idleSince } = this.readTimes();
    const rows = await this.database.rows<SessionRow>(FIND, [digests, oldest, idleSince]);
    return digests.map((digest) => rows.find(({ session_digest }) => isSameDigest(session_digest, digest)));
  }

  private readTimes() {
    const now = this.clock.trustedNow();
    const ago = (seconds: number): Date => addSeconds(now, -seconds);
    return { now, oldest: ago(MAX_SECONDS), idleSince: ago(IDLE_SECONDS), confirmedSince: ago(CONFIRMED_SECONDS) };
  }
}

function toEvent(
  event: 'admin.console.logged_in' | 'admin.console.logged_out',
  request: Request,
  { operator, door }: AdminPrincipal,
): AuditEvent {
  return { event, actor: toActor(request), subject: operator?.id ?? door, logFields: {} };
}

/** @returns what a form carries: its number, and a proof that a page of this session made it for this action */
export function createFormToken({ token }: Pick<ConsoleSession, 'token'>, form: string, action: string): string {
  return `${form}.${computeMac(`console form ${token}`, `${form} ${action}`).toString('base64url')}`;
}

/** @returns the number of the form; undefined when no page of this session made it for this action */
export function readFormToken(session: ConsoleSession, sent: string, action: string): string | undefined {
  const [form = ''] = sent.split('.', 1);
  return isSameSecret(sent, createFormToken(session, form, action)) ? form : undefined;
}
