import { now } from './client.js';

/**
 * How long something may be accepted, as far as its acknowledgements tell. Between the sending of what ends it and the
 * acknowledgement both verdicts are right.
 */
export class Life {
  #endAskedAt = Infinity;
  #endAcknowledgedAt = Infinity;

  /** Call before the request that ends it is sent. */
  ending() {
    this.#endAskedAt = Math.min(this.#endAskedAt, now());
  }

  /** Call when that request was acknowledged. */
  ended() {
    this.#endAcknowledgedAt = Math.min(this.#endAcknowledgedAt, now());
  }

  get isOver() {
    return this.#endAcknowledgedAt < Infinity;
  }

  get isDoubtful() {
    return this.#endAskedAt < Infinity && !this.isOver;
  }

  /** @returns why an answer is wrong; undefined when it is right */
  objection(wasAccepted, { startedAt, endedAt }) {
    const late = startedAt - this.#endAcknowledgedAt;
    if (wasAccepted && late > 0) return `accepted ${late.toFixed(1)} ms after its end was acknowledged`;
    if (!wasAccepted && endedAt < this.#endAskedAt) return 'refused, and nobody had asked for its end';
    return undefined;
  }
}

/** The life of what never was good: forgeries, wrong passwords. */
export const NEVER = new Life();
NEVER.ending();
NEVER.ended();

/** Everything that was acknowledged. */
export class Ledger {
  /** `{ kind, id, key, isRevoked, keyIsDoubtful }`: nodes and app credentials. */
  credentials = [];
  /** `{ id, email, life, isActive, isDoubtful }` */
  users = [];
  /** `{ id, user, refreshToken, accessToken, generation, life, isDoubtful }` */
  sessions = [];
  /** Keys whose end was acknowledged: they stay dead, whatever happens. */
  graves = [];

  sessionsOf(user) {
    return this.sessions.filter((session) => session.user === user);
  }
}
