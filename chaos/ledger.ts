import { toActs, type Act, type Told } from './acts.js';
import type { KeyKind } from './actors/key-kinds.js';
import { now, type Period } from './client.js';

/**
 * The time in which a credential is valid, by the acknowledgements. While the request that ends it is in flight, both
 * verdicts are correct.
 */
export class Life {
  private endAskedAt = Infinity;
  private endAcknowledgedAt = Infinity;
  private verifiersMayLagMs = 0;

  /** Called before the request that ends it is sent. */
  markEnding(): void {
    this.endAskedAt = Math.min(this.endAskedAt, now());
  }

  /**
   * Called when that request is acknowledged.
   * @param verifiersMayLagMs how much longer verifiers may accept the credential
   */
  markEnded(verifiersMayLagMs = 0): void {
    this.verifiersMayLagMs = verifiersMayLagMs;
    this.endAcknowledgedAt = Math.min(this.endAcknowledgedAt, now());
  }

  get isOver(): boolean {
    return this.endAcknowledgedAt < Infinity;
  }

  get isDoubtful(): boolean {
    return this.endAskedAt < Infinity && !this.isOver;
  }

  /** @returns why a verdict is wrong; undefined when it is correct */
  findObjection(wasAccepted: boolean, { startedAt, endedAt }: Period, isVerifier = false): string | undefined {
    const late = startedAt - this.endAcknowledgedAt - (isVerifier ? this.verifiersMayLagMs : 0);
    if (wasAccepted && late > 0) return `accepted ${late.toFixed(1)} ms after its end was acknowledged`;
    if (!wasAccepted && endedAt < this.endAskedAt) return 'refused before its end was requested';
    return undefined;
  }
}

/** The life of a credential that was never valid: a forgery, a wrong password. */
export const NEVER = new Life();
NEVER.markEnding();
NEVER.markEnded();

export interface Key {
  readonly text: string;
  readonly life: Life;
  /** Its name in reports. */
  readonly name: string;
}

/** A node or an app credential. */
export interface Credential {
  readonly kind: KeyKind;
  readonly id: string;
  /** The newest key. */
  key: Key;
  isRevoked: boolean;
  /** Whether a rotation without a response may have replaced the key. */
  keyIsDoubtful: boolean;
}

export interface User {
  readonly id: string;
  email: string;
  password: string;
  /** The address from which the user's requests come. */
  readonly from: string;
  /** The time in which the user is active. */
  life: Life;
  isActive: boolean;
  /** Whether a request without a response may still change the user, or end a later session. */
  isDoubtful: boolean;
  deletion?: 'requested' | 'acknowledged';
}

export interface Session {
  readonly id: string;
  readonly user: User;
  accessToken: string;
  refreshToken: string;
  generation: number;
  readonly life: Life;
  /** Whether a refresh without a response may still arrive, so that the session is not refreshed again. */
  isDoubtful: boolean;
}

/** Where the user of a session lives. */
export interface Membership {
  readonly household: string;
  readonly session: Session;
  readonly asMember: Life;
  readonly asAdmin: Life;
}

/** Every write that was acknowledged, and every act that was requested. */
export class Ledger {
  readonly credentials: Credential[] = [];
  readonly users: User[] = [];
  readonly sessions: Session[] = [];
  /** Credentials whose revocation was acknowledged: they must stay refused. */
  readonly revoked: Credential[] = [];
  /** Those on one subject in the order in which they were done. */
  readonly acts: Act[] = [];
  /** Addresses, passwords, keys and tokens, which no event may contain, with their owners. */
  readonly secrets = new Map<string, string>();

  /** @returns a function that removes all later entries, for a database that was restored */
  mark(): () => void {
    const lists = [this.credentials, this.users, this.sessions, this.revoked, this.acts];
    const lengths = lists.map(({ length }) => length);
    return () => lists.forEach((list, index) => list.splice(lengths[index] ?? 0));
  }

  /** Adds an acknowledged act. */
  addActs(told: Told, subject: string): void {
    this.acts.push(...toActs(told, subject, true));
  }

  /**
   * Adds an act before it is requested, because it may happen without a response.
   * @param request returns whether it was acknowledged
   */
  async perform(told: Told, subject: string, request: () => Promise<boolean>): Promise<boolean> {
    const acts = toActs(told, subject, false);
    this.acts.push(...acts);
    const isAcknowledged = await request();
    for (const act of acts) act.isAcknowledged = isAcknowledged;
    return isAcknowledged;
  }

  /** @param owner names them in reports */
  addSecrets(owner: string, ...texts: readonly string[]): void {
    for (const text of texts) this.secrets.set(text, owner);
  }

  listSessions(user: User): Session[] {
    return this.sessions.filter((session) => session.user === user);
  }
}

/** Credentials that no actor ends, so any refusal of them is wrong. */
export interface Kept {
  readonly credentials: readonly Credential[];
  readonly sessions: readonly Session[];
  readonly memberships: readonly Membership[];
}

export function bearerOf({ accessToken }: Session): Readonly<Record<string, string>> {
  return { Authorization: `Bearer ${accessToken}` };
}
