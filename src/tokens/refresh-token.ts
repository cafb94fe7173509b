import { Injectable } from '@nestjs/common';
import { parse } from 'uuid';
import { toUuid } from '../common/ids.js';
import { Environment } from '../config/environment.js';
import { appendChecksum, CHECKSUM_LENGTH } from '../crypto/key-format.js';
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
const MAX_GENERATION = 2 ** 31 - 1;

export interface RefreshToken {
  readonly text: string;
  readonly digest: SecretDigest;
  readonly sessionId: string;
  readonly generation: number;
  /** 256 random bits that every generation of a session shares. They are in its tokens only, never stored. */
  readonly seed: Buffer;
}

/**
 * The format of refresh tokens: session id, generation and seed, with an HMAC over the three under a key derived from
 * SECRET_KEY. From any generation that a client presents, every other one can be derived. To forge one, an attacker needs
 * both the key and the seed, of which the database has only a digest. The last characters of the HMAC give way to a checksum
 * (crypto/key-format.ts): 220 of its bits are left, and replicas from before the checksum can parse the token.
 */
@Injectable()
export class RefreshTokens {
  private readonly key;

  constructor(environment: Environment) {
    this.key = deriveKey(environment.secretKey, 'platform-auth refresh token v1');
  }

  issueFirst(sessionId: string): RefreshToken {
    return this.encode(sessionId, 0, generateSecretBytes());
  }

  deriveGeneration(generation: number, { sessionId, seed }: RefreshToken): RefreshToken {
    return this.encode(sessionId, generation, seed);
  }

  /** Verifies nothing yet. @returns undefined for text that does not have the format */
  parseToken(text: string): RefreshToken | undefined {
    if (!FORMAT.test(text)) return undefined;
    const bytes = Buffer.from(text.slice(PREFIX.length), 'base64url');
    const sessionId = toUuid(bytes.subarray(0, ID_BYTES));
    const generation = bytes.readUInt32BE(ID_BYTES);
    if (!sessionId || generation >= MAX_GENERATION) return undefined;
    return {
      text,
      digest: computeDigest(text),
      sessionId,
      generation,
      seed: bytes.subarray(ID_BYTES + GENERATION_BYTES, BODY_BYTES),
    };
  }

  /**
   * @returns the current token of the session with this digest; undefined when this service did not issue the presented one for
   * that session, as for a forgery by an attacker who knows only the session id
   */
  deriveCurrent(token: RefreshToken, currentGeneration: number, currentDigest: SecretDigest): RefreshToken | undefined {
    const isOurs = this.deriveIssued(token.generation, token, token.digest) !== undefined;
    return isOurs ? this.deriveIssued(currentGeneration, token, currentDigest) : undefined;
  }

  /** @returns the token of a generation that has this digest: with a checksum, or as before there were checksums */
  private deriveIssued(
    generation: number,
    { sessionId, seed }: RefreshToken,
    digest: SecretDigest,
  ): RefreshToken | undefined {
    const forms = [true, false].map((hasChecksum) => this.encode(sessionId, generation, seed, hasChecksum));
    return forms.find((form) => isSameDigest(form.digest, digest));
  }

  private encode(sessionId: string, generation: number, seed: Buffer, hasChecksum = true): RefreshToken {
    const body = Buffer.alloc(BODY_BYTES);
    body.set(parse(sessionId), 0);
    body.writeUInt32BE(generation, ID_BYTES);
    body.set(seed, ID_BYTES + GENERATION_BYTES);
    const complete = PREFIX + Buffer.concat([body, computeMac(this.key, body)]).toString('base64url');
    const text = hasChecksum ? appendChecksum(complete.slice(0, -CHECKSUM_LENGTH)) : complete;
    return { text, digest: computeDigest(text), sessionId, generation, seed };
  }
}
