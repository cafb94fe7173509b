/**
 * The passkeys of a user: registration, list, names and removal; passkey-verifier.ts has their use, and the room
 * webauthn the protocol.
 */
import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { OwnCall } from '../../foundation/access/actor.js';
import { toUserEvent, withAuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { isId } from '../../foundation/common/ids.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { Challenges, type PresentedChallenge } from '../challenges/challenges.js';
import { toFactorsContext, type FactorsState } from './challenge-contexts.js';
import { FactorChanges } from './factor-changes.js';
import type { OwnProof } from './reauthentication.js';
import { SecondFactorsService } from './second-factors.service.js';
import { insertPasskey, PASSKEY_COLUMNS as COLUMNS, MAX_PASSKEYS, type Passkey } from '../webauthn/passkey-rows.js';
import {
  createInvalidRegistration,
  parseRegistration,
  PasskeyCreationOptionsResponse,
  readChallenge,
  RelyingParty,
  type RegistrationJson,
} from '../webauthn/relying-party.js';

/** Kept by the authenticator, so that it also logs in alone. */
const SELECTION = { residentKey: 'required', userVerification: 'preferred' } as const;

const LIST: Statement = {
  name: 'passkeys_list',
  text: `SELECT ${COLUMNS} FROM passkeys WHERE user_id = $1 ORDER BY id`,
};

const READ_STATE = `SELECT password_changed_at AS "passwordChangedAt", factors_changed_at AS "factorsChangedAt"
  FROM users WHERE id = $1`;

const RENAME = withAuditEvent({
  name: 'passkeys_rename',
  text: `UPDATE passkeys SET name = $3 WHERE id = $1 AND user_id = $2 RETURNING ${COLUMNS}`,
});

const REMOVE = 'DELETE FROM passkeys WHERE id = $1 AND user_id = $2 RETURNING id';

@Injectable()
export class PasskeysService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly database: Database,
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly relyingParty: RelyingParty,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  /** @returns the options for navigator.credentials.create() */
  async createPasskeyOptions(call: OwnCall, proof: OwnProof): Promise<PasskeyCreationOptionsResponse> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    const { userId } = call.principal;
    const { prepared: user, verified } = await this.changes.authorizeStep(call, proof, async () => {
      const current = await this.factors.findUser(userId);
      if (current.passkeys.length >= MAX_PASSKEYS) throw new ProblemException(problems.tooManyPasskeys);
      return current;
    });
    const challenge = await this.challenges.issueChallenge('registration', userId, toFactorsContext(verified));
    const owner = { id: userId, name: user.email, passkeys: user.passkeys };
    return this.relyingParty.createRegistrationOptions(owner, challenge, SELECTION);
  }

  /** Ends the user's other sessions when this is the first factor. */
  async registerPasskey(call: OwnCall, { name, answer }: { name: string; answer: object }): Promise<Passkey> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    const { userId } = call.principal;
    const user = await this.factors.readUser(userId);
    const response = parseRegistration(answer);
    const verified = user && response && (await this.verifyRegistration(userId, response));
    if (!verified) throw createInvalidRegistration('account');
    const { challenge, ...registered } = verified;
    const { transports } = response.response;
    const passkey = { ...registered, ownerId: userId, name, transports, now: this.clock.now() };
    const register = async (transaction: EntityManager) => {
      const isValid = await this.useRegistrationChallenge(transaction, challenge);
      if (!isValid) throw createInvalidRegistration('account');
      const result = await insertPasskey(transaction, 'passkeys', passkey);
      return { result, event: 'user.passkey.added', details: { passkey_id: result.id } } as const;
    };
    return this.changes.commitChange(call, user, register, () => createInvalidRegistration('account'));
  }

  /** Lists the passkeys, the oldest first. */
  async listPasskeys(userId: string): Promise<Passkey[]> {
    return this.database.rows<Passkey>(LIST, [userId]);
  }

  async renamePasskey({ principal, actor }: OwnCall, { id, name }: { id: string; name: string }): Promise<Passkey> {
    const { userId } = principal;
    const event = toUserEvent('user.passkey.renamed', actor, userId, { details: { passkey_id: id } });
    const [renamed] = isId(id) ? await this.audit.execute<Passkey>(RENAME, [id, userId, name], event) : [];
    if (!renamed) throw new ProblemException(problems.notFound);
    return renamed;
  }

  async removePasskey(call: OwnCall, id: string, proof: OwnProof): Promise<void> {
    await this.changes.commitAction(call, proof, async (transaction) => {
      if (!isId(id)) throw new ProblemException(problems.notFound);
      const [, count] = await transaction.query<[unknown, number]>(REMOVE, [id, call.principal.userId]);
      if (count === 0) throw new ProblemException(problems.notFound);
      return { result: undefined, event: 'user.passkey.removed', details: { passkey_id: id } };
    });
  }

  private async verifyRegistration(userId: string, response: RegistrationJson) {
    const text = readChallenge(response);
    const challenge = this.challenges.parseChallenge('registration', text);
    if (challenge?.userId !== userId || !(await this.challenges.isCurrent(challenge))) return undefined;
    const verified = await this.relyingParty.verifyRegistration(response, text, false);
    return verified && { ...verified, challenge };
  }

  /**
   * Compares under the lock of the user, and not before: a repeated registration, whose first call has changed the
   * factors and may still be waiting for verifiers, waits like the first.
   * @returns false after a change of the password or the factors, and for a challenge that was used
   */
  private async useRegistrationChallenge(transaction: EntityManager, challenge: PresentedChallenge): Promise<boolean> {
    const [state] = await transaction.query<[FactorsState]>(READ_STATE, [challenge.userId]);
    if (!this.challenges.isBoundTo(challenge, toFactorsContext(state))) return false;
    return this.challenges.consumeChallenge(transaction, challenge);
  }
}
