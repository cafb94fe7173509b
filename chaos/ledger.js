import { now } from './client.js';

/**
 * The time in which a credential is valid, by the acknowledgements. Between the sending of the request that ends it and
 * the acknowledgement, both verdicts are correct.
 */
export class Life {
  #endAskedAt = Infinity;
  #endAcknowledgedAt = Infinity;

  /** Call before the request that ends it is sent. */
  ending() {
    this.#endAskedAt = Math.min(this.#endAskedAt, now());
  }

  /** Call when that request is acknowledged. */
  ended() {
    this.#endAcknowledgedAt = Math.min(this.#endAcknowledgedAt, now());
  }

  get isOver() {
    return this.#endAcknowledgedAt < Infinity;
  }

  get isDoubtful() {
    return this.#endAskedAt < Infinity && !this.isOver;
  }

  /** @returns why a verdict is wrong; undefined when it is correct */
  objection(wasAccepted, { startedAt, endedAt }) {
    const late = startedAt - this.#endAcknowledgedAt;
    if (wasAccepted && late > 0) return `accepted ${late.toFixed(1)} ms after its end was acknowledged`;
    if (!wasAccepted && endedAt < this.#endAskedAt) return 'refused before its end was requested';
    return undefined;
  }
}

/** The life of a credential that was never valid: a forgery, a wrong password. */
export const NEVER = new Life();
NEVER.ending();
NEVER.ended();

/** Every write that was acknowledged. */
export class Ledger {
  /** `{ kind, id, key, isRevoked, keyIsDoubtful }`: nodes and app credentials. */
  credentials = [];
  /** `{ id, email, life, isActive, isDoubtful }` */
  users = [];
  /** `{ id, user, refreshToken, accessToken, generation, life, isDoubtful }` */
  sessions = [];
  /** Credentials whose revocation was acknowledged: they must stay refused. */
  revoked = [];

  sessionsOf(user) {
    return this.sessions.filter((session) => session.user === user);
  }
}
