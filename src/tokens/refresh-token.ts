import { Injectable } from '@nestjs/common';
import { parse } from 'uuid';
import { toUuid } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import {
  deriveKey,
  computeDigest,
  computeMac,
  generateSecretBytes,
  isSameDigest,
  type SecretDigest,
} from '../crypto/secret.js';

const PREFIX = 'pa_rt_';
const ID_BYTES = 16;
const GENERATION_BYTES = 4;
const SEED_BYTES = 32;
const BODY_BYTES = ID_BYTES + GENERATION_BYTES + SEED_BYTES;
const MAC_BYTES = 32;
const FORMAT = new RegExp(`^${PREFIX}[A-Za-z0-9_-]{${Math.ceil(((BODY_BYTES + MAC_BYTES) * 4) / 3)}}$`);
const LAST_GENERATION = 2 ** 31 - 1;

/** An opaque refresh token taken apart. */
export interface RefreshToken {
  readonly text: string;
  readonly digest: SecretDigest;
  readonly sessionId: string;
  readonly generation: number;
  /** 256 random bits that every generation of a session shares. They exist in its tokens only, never at rest. */
  readonly seed: Buffer;
}

/**
 * Makes and reads refresh tokens: session id, generation and seed, and an HMAC over the three under a key derived
 * from SECRET_KEY. Whoever holds one generation can be given any other one again, while neither the database (it has
 * only a digest) nor the key alone is enough to make one.
 */
@Injectable()
export class RefreshTokens {
  private readonly key;

  constructor(environment: Environment) {
    this.key = deriveKey(environment.secretKey, 'platform-auth refresh token v1');
  }

  /** The first token of a new session. */
  first(sessionId: string): RefreshToken {
    return this.make(sessionId, 0, generateSecretBytes());
  }

  /** The token of another generation of the same session: always the same one. */
  ofGeneration(generation: number, { sessionId, seed }: RefreshToken): RefreshToken {
    return this.make(sessionId, generation, seed);
  }

  /** @returns undefined for text that is no refresh token; whether it is a good one only the database knows */
  parse(text: string): RefreshToken | undefined {
    if (!FORMAT.test(text)) return undefined;
    const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url');
    const sessionId = toUuid(bytes.subarray(0, ID_BYTES));
    const generation = bytes.readUInt32BE(ID_BYTES);
    if (!sessionId || generation >= LAST_GENERATION) return undefined;
    return {
      text,
      digest: computeDigest(text),
      sessionId,
      generation,
      seed: bytes.subarray(ID_BYTES + GENERATION_BYTES, BODY_BYTES),
    };
  }

  /**
   * Whether a token was once handed out for a session whose current token has this digest: it carries the session's
   * seed and our HMAC. A forgery that only knows the session's id fails.
   */
  belongsTo(token: RefreshToken, currentGeneration: number, currentDigest: SecretDigest): boolean {
    const isOurs = isSameDigest(this.ofGeneration(token.generation, token).digest, token.digest);
    return isOurs && isSameDigest(this.ofGeneration(currentGeneration, token).digest, currentDigest);
  }

  private make(sessionId: string, generation: number, seed: Buffer): RefreshToken {
    const body = Buffer.alloc(BODY_BYTES);
    body.set(parse(sessionId), 0);
    body.writeUInt32BE(generation, ID_BYTES);
    body.set(seed, ID_BYTES + GENERATION_BYTES);
    const text = PREFIX + Buffer.concat([body, computeMac(this.key, body)]).toString('base64url');
    return { text, digest: computeDigest(text), sessionId, generation, seed };
  }
}
