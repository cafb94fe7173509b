import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { NIL, parse } from 'uuid';
import { addSeconds } from '../common/clock.js';
import { toUuid } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { computeDigest, computeMac, deriveKey, generateSecretBytes, isSameDigest } from '../crypto/secret.js';
import { Database } from '../database/database.js';

const PURPOSE = 'platform-auth challenges v2';
const KINDS = { login: 1, registration: 2, passkey: 3 } as const;
export const CHALLENGE_TTL_SECONDS = 300;
/** A transaction that waited: PostgreSQL's clock is read on another connection. */
const TOLERANCE_SECONDS = 5;
const KIND_BYTES = 1;
const TIME_BYTES = 6;
const USER_BYTES = 16;
const NONCE_BYTES = 16;
const BODY_BYTES = KIND_BYTES + TIME_BYTES + USER_BYTES + NONCE_BYTES;
/** Of each of the two: half of an HMAC-SHA-256 (RFC 2104 §5). */
const MAC_BYTES = 16;
const FORMAT = new RegExp(`^[A-Za-z0-9_-]{${Math.ceil(((BODY_BYTES + 2 * MAC_BYTES) * 4) / 3)}}$`);

/** `login`: after the password; `registration`: of a passkey; `passkey`: for a login with nothing else. */
export type ChallengeKind = keyof typeof KINDS;

/** A challenge that this service issued, as it was presented. Its age and its context are not verified. */
export interface PresentedChallenge {
  readonly body: Buffer;
  readonly contextMac: Buffer;
  readonly userId: string;
  readonly issuedAt: Date;
  readonly digest: Buffer;
}

type Keys = ReturnType<typeof deriveKeys>;

const USE = 'INSERT INTO used_challenges (digest, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING digest';

const PURGE = `DELETE FROM used_challenges WHERE digest IN (SELECT digest FROM used_challenges
  WHERE expires_at < now() - $1::interval LIMIT $2 FOR UPDATE SKIP LOCKED)`;

/**
 * Challenges of logins and of passkeys: kind, time, user and nonce with an HMAC, so that any replica takes the answer
 * and an anonymous client writes no row. A second HMAC binds the context, which is read from the account: without the
 * first one, the time to refuse a forged challenge would reveal whether the id in it exists. Times are those of
 * PostgreSQL. A row is written when one is used, which happens once.
 */
@Injectable()
export class Challenges {
  private readonly keys: Keys;
  private readonly previousKeys: Keys | undefined;

  constructor(
    { secretKey, secretKeyPrevious }: Environment,
    private readonly database: Database,
  ) {
    this.keys = deriveKeys(secretKey);
    this.previousKeys = secretKeyPrevious === undefined ? undefined : deriveKeys(secretKeyPrevious);
  }

  /**
   * @param now by the clock of PostgreSQL
   * @param context what must be the same when it is answered
   */
  issue(kind: ChallengeKind, now: Date, userId: string = NIL, context = ''): string {
    const body = Buffer.alloc(BODY_BYTES);
    body.writeUInt8(KINDS[kind]);
    body.writeUIntBE(now.getTime(), KIND_BYTES, TIME_BYTES);
    body.set(parse(userId), KIND_BYTES + TIME_BYTES);
    body.set(generateSecretBytes(NONCE_BYTES), BODY_BYTES - NONCE_BYTES);
    const macs = [computeOriginMac(this.keys, body), computeContextMac(this.keys, body, context)];
    return Buffer.concat([body, ...macs]).toString('base64url');
  }

  /** @returns undefined for text that is not a challenge of this kind that this service issued; nothing is read for it */
  read(kind: ChallengeKind, text: string): PresentedChallenge | undefined {
    if (!FORMAT.test(text)) return undefined;
    const bytes = Buffer.from(text, 'base64url');
    const body = bytes.subarray(0, BODY_BYTES);
    const userId = toUuid(body.subarray(KIND_BYTES + TIME_BYTES, KIND_BYTES + TIME_BYTES + USER_BYTES));
    if (body.readUInt8() !== KINDS[kind] || userId === undefined) return undefined;
    const originMac = bytes.subarray(BODY_BYTES, BODY_BYTES + MAC_BYTES);
    if (!this.isMadeWith((keys) => computeOriginMac(keys, body), originMac)) return undefined;
    const issuedAt = new Date(body.readUIntBE(KIND_BYTES, TIME_BYTES));
    // Of the bytes and not of the text: base64url has spare bits.
    return { body, contextMac: bytes.subarray(-MAC_BYTES), userId, issuedAt, digest: computeDigest(bytes) };
  }

  /** @param now by the clock of PostgreSQL */
  isValid({ body, contextMac, issuedAt }: PresentedChallenge, now: Date, context = ''): boolean {
    if (now > addSeconds(issuedAt, CHALLENGE_TTL_SECONDS) || now < addSeconds(issuedAt, -TOLERANCE_SECONDS))
      return false;
    return this.isMadeWith((keys) => computeContextMac(keys, body, context), contextMac);
  }

  /**
   * @param transaction in which the answer takes effect
   * @returns whether it was not used before. Of concurrent callers one gets true.
   */
  async use(transaction: EntityManager, { digest, issuedAt }: PresentedChallenge): Promise<boolean> {
    const values = [digest, addSeconds(issuedAt, CHALLENGE_TTL_SECONDS)];
    return (await transaction.query<unknown[]>(USE, values)).length > 0;
  }

  /** Deletes used challenges that have expired. See {@link Database.purge}. */
  async purge(): Promise<number> {
    return this.database.purge(PURGE, '1 hours');
  }

  private isMadeWith(compute: (keys: Keys) => Buffer, mac: Buffer): boolean {
    const present = this.previousKeys ? [this.keys, this.previousKeys] : [this.keys];
    return present.some((keys) => isSameDigest(compute(keys), mac));
  }
}

function deriveKeys(secretKey: string) {
  return { origin: deriveKey(secretKey, `${PURPOSE} origin`), context: deriveKey(secretKey, `${PURPOSE} context`) };
}

function computeOriginMac({ origin }: Keys, body: Buffer): Buffer {
  return computeMac(origin, body).subarray(0, MAC_BYTES);
}

function computeContextMac({ context: key }: Keys, body: Buffer, context: string): Buffer {
  return computeMac(key, Buffer.concat([body, Buffer.from(context)])).subarray(0, MAC_BYTES);
}

/** What a challenge is bound to besides the account: a change of the password voids it. */
export function toPasswordContext({ passwordChangedAt }: { readonly passwordChangedAt: Date | null }): string {
  return passwordChangedAt?.toISOString() ?? '';
}
