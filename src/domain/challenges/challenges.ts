/**
 * Challenges of logins and passkeys: text that any replica can verify, so that an anonymous client writes no row. It
 * contains kind, time (of PostgreSQL), owner and nonce under an HMAC. A second HMAC binds a context that is read from
 * the account; with one HMAC, the duration of a refusal would tell whether the user in a forged challenge exists.
 * Invariant: a challenge lives 5 minutes and is used once; only the transaction that uses it writes a row.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { NIL, parse } from 'uuid';
import { addSeconds } from '../../foundation/common/clock.js';
import { toUuid } from '../../foundation/common/ids.js';
import { Environment } from '../../foundation/config/environment.js';
import {
  computeDigest,
  computeMac,
  deriveKey,
  generateSecretBytes,
  isSameDigest,
} from '../../foundation/crypto/secret.js';
import { DatabaseClock } from '../../foundation/database/database.js';

const PURPOSE = 'platform-auth challenges v2';
const KINDS = {
  login: 1,
  registration: 2,
  passkey: 3,
  reauthentication: 4,
  enrolment: 5,
  operator_registration: 6,
  operator_login: 7,
  operator_confirmation: 8,
} as const;
export const CHALLENGE_TTL_SECONDS = 300;
/** A transaction that waited read the clock before the challenge was issued, which then seems to be of the future. */
const TOLERANCE_SECONDS = 5;
const KIND_BYTES = 1;
const TIME_BYTES = 6;
const USER_BYTES = 16;
const NONCE_BYTES = 16;
const BODY_BYTES = KIND_BYTES + TIME_BYTES + USER_BYTES + NONCE_BYTES;
/** Each HMAC is truncated to the first half of its 32 bytes (RFC 2104 §5). */
const MAC_BYTES = 16;
const FORMAT = new RegExp(`^[A-Za-z0-9_-]{${Math.ceil(((BODY_BYTES + 2 * MAC_BYTES) * 4) / 3)}}$`);

/**
 * `login`, `reauthentication` and `enrolment` (of a first factor, at a login) follow a password, `registration` precedes
 * a new passkey, `passkey` begins a login with a passkey. Those of operators are for the console: `operator_login` follows
 * a valid key.
 */
type ChallengeKind = keyof typeof KINDS;

/** A challenge that this service issued. Its age and its context are not verified yet. */
export interface PresentedChallenge {
  readonly body: Buffer;
  readonly contextMac: Buffer;
  readonly userId: string;
  readonly issuedAt: Date;
  readonly digest: Buffer;
}

type Keys = ReturnType<typeof deriveKeys>;

const CONSUME =
  'INSERT INTO used_challenges (digest, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING digest';

@Injectable()
export class Challenges {
  private readonly keys: readonly [Keys, ...Keys[]];

  constructor(
    { masterKey, masterKeyPrevious }: Environment,
    private readonly clock: DatabaseClock,
  ) {
    this.keys = [deriveKeys(masterKey), ...(masterKeyPrevious === undefined ? [] : [deriveKeys(masterKeyPrevious)])];
  }

  /** @param context text that must be unchanged when the challenge is answered */
  async issueChallenge(kind: ChallengeKind, userId: string = NIL, context = ''): Promise<string> {
    const now = await this.clock.now();
    const body = Buffer.alloc(BODY_BYTES);
    body.writeUInt8(KINDS[kind]);
    body.writeUIntBE(now.getTime(), KIND_BYTES, TIME_BYTES);
    body.set(parse(userId), KIND_BYTES + TIME_BYTES);
    body.set(generateSecretBytes(NONCE_BYTES), BODY_BYTES - NONCE_BYTES);
    const [keys] = this.keys;
    const macs = [computeOriginMac(keys, body), computeContextMac(keys, body, context)];
    return Buffer.concat([body, ...macs]).toString('base64url');
  }

  /**
   * Verifies the first HMAC without reading the database.
   * @returns undefined for text that is not a challenge of this kind from this service
   */
  parseChallenge(kind: ChallengeKind, text: string): PresentedChallenge | undefined {
    if (!FORMAT.test(text)) return undefined;
    const bytes = Buffer.from(text, 'base64url');
    const body = bytes.subarray(0, BODY_BYTES);
    const userId = toUuid(body.subarray(KIND_BYTES + TIME_BYTES, KIND_BYTES + TIME_BYTES + USER_BYTES));
    if (body.readUInt8() !== KINDS[kind] || userId === undefined) return undefined;
    const originMac = bytes.subarray(BODY_BYTES, BODY_BYTES + MAC_BYTES);
    if (!this.isMadeWith((keys) => computeOriginMac(keys, body), originMac)) return undefined;
    const issuedAt = new Date(body.readUIntBE(KIND_BYTES, TIME_BYTES));
    // A digest of the bytes and not of the text: base64url has spare bits, so that several texts are the same
    // challenge.
    return { body, contextMac: bytes.subarray(-MAC_BYTES), userId, issuedAt, digest: computeDigest(bytes) };
  }

  /** @returns undefined for text that is not a current challenge of this kind, for this user and in this context */
  async findChallenge(
    kind: ChallengeKind,
    text: string,
    userId: string = NIL,
    context = '',
  ): Promise<PresentedChallenge | undefined> {
    const challenge = this.parseChallenge(kind, text);
    if (challenge?.userId !== userId || !this.isBoundTo(challenge, context)) return undefined;
    return (await this.isCurrent(challenge)) ? challenge : undefined;
  }

  async isCurrent({ issuedAt }: PresentedChallenge): Promise<boolean> {
    const now = await this.clock.now();
    return now <= addSeconds(issuedAt, CHALLENGE_TTL_SECONDS) && now >= addSeconds(issuedAt, -TOLERANCE_SECONDS);
  }

  isBoundTo({ body, contextMac }: PresentedChallenge, context: string): boolean {
    return this.isMadeWith((keys) => computeContextMac(keys, body, context), contextMac);
  }

  /** @returns true for exactly one of all calls with this challenge */
  async consumeChallenge(transaction: EntityManager, { digest, issuedAt }: PresentedChallenge): Promise<boolean> {
    const values = [digest, addSeconds(issuedAt, CHALLENGE_TTL_SECONDS)];
    return (await transaction.query<unknown[]>(CONSUME, values)).length > 0;
  }

  private isMadeWith(compute: (keys: Keys) => Buffer, mac: Buffer): boolean {
    return this.keys.some((keys) => isSameDigest(compute(keys), mac));
  }
}

function deriveKeys(masterKey: string) {
  return { origin: deriveKey(masterKey, `${PURPOSE} origin`), context: deriveKey(masterKey, `${PURPOSE} context`) };
}

function computeOriginMac({ origin }: Keys, body: Buffer): Buffer {
  return computeMac(origin, body).subarray(0, MAC_BYTES);
}

function computeContextMac({ context: key }: Keys, body: Buffer, context: string): Buffer {
  return computeMac(key, Buffer.concat([body, Buffer.from(context)])).subarray(0, MAC_BYTES);
}
