import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { Clock } from '../common/clock.js';
import { Database } from '../database/database.js';
import type { SessionOwner } from '../tokens/new-sessions.js';
import { RefusedProofError, type FactorReason, type UseProof } from './factor-refusals.js';
import { ADVANCE_COUNTER, READ_PASSKEY } from './factor-statements.js';
import type { Passkey } from './passkeys.service.js';
import { RelyingParty, toUserHandle } from './relying-party.js';
import type { AuthenticationJson } from './webauthn-json.js';

/** What the passkey has proven (RFC 8176): a key of one device, or one that is synchronised; without attestation. */
export type PasskeyProof = 'hwk' | 'swk';

/** The user of a passkey, as it was when the passkey was read. */
export interface PasskeyOwner extends SessionOwner {
  readonly emailVerifiedAt: Date | null;
}

interface PasskeyRow extends Passkey, Omit<PasskeyOwner, 'id'> {
  readonly isActive: boolean;
}

export type PasskeyVerdict =
  | { readonly valid: true; readonly owner: PasskeyOwner; readonly proof: PasskeyProof; readonly useFactor: UseProof }
  | { readonly valid: false; readonly reason: FactorReason; readonly userId?: string };

@Injectable()
export class PasskeyVerifier {
  constructor(
    private readonly database: Database,
    private readonly relyingParty: RelyingParty,
    private readonly clock: Clock,
  ) {}

  /**
   * Verifies an answer to a challenge that is valid, except for the counter: `useFactor` decides that.
   * @param ownerId the user who has presented the password; undefined: the passkey alone, which then needs the user's
   * verification by the authenticator, and tells who the user is
   */
  async verify(response: AuthenticationJson, challenge: string, ownerId?: string): Promise<PasskeyVerdict> {
    const row = await this.database.row<PasskeyRow>(READ_PASSKEY, [Buffer.from(response.id, 'base64url')]);
    if (!row || (ownerId !== undefined && row.userId !== ownerId)) return { valid: false, reason: 'unknown_passkey' };
    const { id, userId, isActive, isSynced } = row;
    const verified = hasHandleOf(response, userId, ownerId !== undefined)
      ? await this.relyingParty.verifyAuthentication(response, challenge, row, ownerId === undefined)
      : undefined;
    if (!verified) return { valid: false, reason: 'wrong_passkey', userId };
    // WebAuthn L3 §7.2: it never changes, so another authenticator has the key.
    if (verified.isSynced !== isSynced) return { valid: false, reason: 'backup_eligibility_changed', userId };
    if (!isActive) return { valid: false, reason: 'disabled', userId };
    const { email, passwordChangedAt, emailVerifiedAt, factorsChangedAt } = row;
    const owner = { id: userId, email, passwordChangedAt, emailVerifiedAt, factorsChangedAt };
    const useFactor: UseProof = (transaction) => this.advance(transaction, id, verified.counter);
    return { valid: true, owner, proof: isSynced ? 'swk' : 'hwk', useFactor };
  }

  private async advance(transaction: EntityManager, id: string, counter: number): Promise<void> {
    const [, count] = await transaction.query<[unknown, number]>(ADVANCE_COUNTER, [id, counter, this.clock.now()]);
    if (count === 0) throw new RefusedProofError('counter_not_increased');
  }
}

/** WebAuthn §7.2, step 6: alone, the passkey must name its user. */
function hasHandleOf({ response }: AuthenticationJson, userId: string, mayBeAbsent: boolean): boolean {
  if (response.userHandle === undefined) return mayBeAbsent;
  return Buffer.from(response.userHandle, 'base64url').equals(toUserHandle(userId));
}
