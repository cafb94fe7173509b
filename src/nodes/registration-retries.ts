import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { EntityManager } from 'typeorm';
import { addDays } from '../common/clock.js';
import { Environment } from '../config/environment.js';
import { computeMac, deriveKey, isSameDigest } from '../crypto/secret.js';
import { DatabaseClock, Database } from '../database/database.js';
import { ProblemException, problems, refuseField } from '../problems/problems.js';

const VALID_DAYS = 1;

/**
 * Inserts the key, or replaces one that has expired. A concurrent registration with the same key waits here until the first
 * one commits, and then gets no row.
 */
const CLAIM = `INSERT INTO idempotency_keys AS held (key_mac, body_mac, node_id, created_at) VALUES ($1, $2, $3, $4)
  ON CONFLICT (key_mac) DO UPDATE
    SET body_mac = excluded.body_mac, node_id = excluded.node_id, created_at = excluded.created_at
    WHERE held.created_at <= $5
  RETURNING node_id`;
const READ = 'SELECT body_mac, node_id FROM idempotency_keys WHERE key_mac = $1';
const PURGE = `DELETE FROM idempotency_keys WHERE key_mac IN
  (SELECT key_mac FROM idempotency_keys WHERE created_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`;

interface HeldKey {
  readonly body_mac: Buffer;
  readonly node_id: string;
}

/** Recognises the repeat of a registration whose response was lost, by its Idempotency-Key. */
@Injectable()
export class RegistrationRetries {
  /** SECRET_KEY_PREVIOUS comes first: a replica that was not restarted yet claims under that secret alone. */
  private readonly macKeys;

  constructor(
    { secretKey, secretKeyPrevious }: Environment,
    private readonly database: Database,
    private readonly clock: DatabaseClock,
  ) {
    const secrets = secretKeyPrevious === undefined ? [secretKey] : [secretKeyPrevious, secretKey];
    this.macKeys = secrets.map((secret) => deriveKey(secret, 'idempotency keys'));
  }

  /**
   * Claims the key for a node that is about to be inserted in the same transaction.
   * @param registration in one form for equal bodies
   * @returns the id of the node that was registered with this key before; undefined when there is none
   * @throws {ProblemException} idempotency_key_reused, when that was another body
   */
  async claimKey(
    transaction: EntityManager,
    key: string,
    registration: object,
    nodeId: string,
  ): Promise<string | undefined> {
    const now = await this.clock.now(transaction);
    for (const macKey of this.macKeys) {
      const [keyMac, bodyMac] = [computeMac(macKey, key), computeMac(macKey, JSON.stringify(registration))];
      const values = [keyMac, bodyMac, nodeId, now, addDays(now, -VALID_DAYS)];
      const claimed = await transaction.query<unknown[]>(CLAIM, values);
      if (claimed.length > 0) continue;
      const [held] = await transaction.query<HeldKey[]>(READ, [keyMac]);
      if (!held) throw new Error('The row that is locked here has disappeared');
      if (!isSameDigest(held.body_mac, bodyMac)) throw new ProblemException(problems.idempotencyKeyReused);
      return held.node_id;
    }
    return undefined;
  }

  /** Deletes keys that are no longer valid. See {@link Database.purge}. */
  async purge(now: Date): Promise<number> {
    return this.database.purge(PURGE, addDays(now, -VALID_DAYS));
  }
}

export const MAX_IDEMPOTENCY_KEY_LENGTH = 255;
/** Without blanks: Node.js joins a repeated header with a comma and a blank. */
export const IDEMPOTENCY_KEY_PATTERN = '^[!-~]{1,255}$';
const IDEMPOTENCY_KEY = new RegExp(IDEMPOTENCY_KEY_PATTERN);

/**
 * Reads `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header), with or without its quotes.
 * @returns undefined when it was not sent
 * @throws {ProblemException} validation_failed
 */
export function readIdempotencyKey({ headers }: Request): string | undefined {
  const sent = headers['idempotency-key'];
  if (sent === undefined) return undefined;
  if (typeof sent === 'string' && IDEMPOTENCY_KEY.test(sent)) return sent;
  return refuseField('', 'Idempotency-Key must be 1 to 255 printable ASCII characters without blanks');
}
