/** The use of a user's passkey, at a login or for an action. Invariant: the counter of a passkey only grows. */
import { Injectable } from '@nestjs/common';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { ACCOUNT_STATE, type AccountState } from '../passwords/password-verifier.js';
import { buildCounterAdvance } from '../webauthn/passkey-rows.js';
import { RelyingParty, type AuthenticationJson, type StoredPasskey } from '../webauthn/relying-party.js';
import { RefusedProofError, type UseProof } from './second-factors.service.js';

/** Reads the owner in the same snapshot, because a session begins only if that state has not changed. */
const READ_PASSKEY: Statement = {
  name: 'passkeys_read',
  text: `SELECT ${ACCOUNT_STATE}, users.id AS "ownerId", passkeys.id AS "passkeyId", credential_id AS "credentialId",
           public_key AS "publicKey", is_synced AS "isSynced"
         FROM passkeys JOIN users ON users.id = user_id WHERE credential_id = $1`,
};

const ADVANCE_COUNTER = buildCounterAdvance('passkeys');

interface PasskeyRow extends AccountState, StoredPasskey {
  readonly passkeyId: string;
  readonly isSynced: boolean;
}

interface VerifiedAnswer {
  readonly owner: AccountState;
  /** RFC 8176: `hwk` for a key of one device, `swk` for a synchronised one, as the authenticator claims. */
  readonly amr: 'hwk' | 'swk';
  readonly useFactor: UseProof;
}

@Injectable()
export class PasskeyVerifier {
  constructor(
    private readonly relyingParty: RelyingParty,
    private readonly database: Database,
    private readonly clock: ComparedClock,
  ) {}

  /**
   * Verifies an answer to a valid challenge, except for the counter, which `useFactor` verifies.
   * @param ownerId the user who presented the password; undefined for a login with the passkey alone, in which the
   * authenticator must have verified the user and the answer must name the user
   * @throws {RefusedProofError}
   */
  async verifyPasskey(response: AuthenticationJson, challenge: string, ownerId?: string): Promise<VerifiedAnswer> {
    const owner = await this.database.row<PasskeyRow>(READ_PASSKEY, [Buffer.from(response.id, 'base64url')]);
    if (!owner || (ownerId !== undefined && owner.id !== ownerId))
      throw new RefusedProofError('unknown_passkey', ownerId);
    const { id: userId, passkeyId, isActive, isSynced } = owner;
    const isAlone = ownerId === undefined;
    const requirements = { verification: isAlone, userHandle: isAlone };
    const verified = await this.relyingParty.verifyAuthentication(response, challenge, owner, requirements);
    if (!verified) throw new RefusedProofError('wrong_passkey', userId);
    // Backup eligibility never changes (WebAuthn L3 §7.2), so another authenticator has the key.
    if (verified.isSynced !== isSynced) throw new RefusedProofError('backup_eligibility_changed', userId);
    if (!isActive) throw new RefusedProofError('disabled', userId);
    const useFactor: UseProof = async (transaction) => {
      const values = [passkeyId, verified.counter, this.clock.now()];
      const [, count] = await transaction.query<[unknown, number]>(ADVANCE_COUNTER, values);
      if (count === 0) throw new RefusedProofError('counter_not_increased', userId);
    };
    return { owner, amr: isSynced ? 'swk' : 'hwk', useFactor };
  }
}
