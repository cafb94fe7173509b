/**
 * The passkeys of operators, which the console asks for beside the key. The API accepts the key alone, because programs
 * call it. Invariants: a challenge is bound to the operator's current key and used once; the counter of a passkey only
 * grows; the authenticator verified the person, by a PIN or a fingerprint.
 */
import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import type { OperatorIdentity } from '../../foundation/access/principals.js';
import { isId } from '../../foundation/common/ids.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import type { SecretDigest } from '../../foundation/crypto/secret.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Database, type Statement } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { withAuditEvent, type AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { determineKeyStatus, isRefusal, listKeyColumns, type KeyRow } from '../keys/key-lifecycle.js';
import { Challenges } from '../challenges/challenges.js';
import {
  buildCounterAdvance,
  buildKnownPasskeys,
  insertPasskey,
  PASSKEY_COLUMNS as COLUMNS,
  type Passkey,
} from '../webauthn/passkey-rows.js';
import {
  createInvalidRegistration,
  parseAuthentication,
  parseRegistration,
  readChallenge,
  RelyingParty,
  type KnownPasskey,
  type PasskeyCreationOptionsResponse,
  type PasskeyRequestOptionsResponse,
  type StoredPasskey,
} from '../webauthn/relying-party.js';

/** Not kept by the authenticator under the name of the operator: it is only asked for after the key. */
const SELECTION = { residentKey: 'discouraged', userVerification: 'required' } as const;

const READ_OWNER: Statement = {
  name: 'operator_passkeys_read_owner',
  text: `SELECT id, name, key_digest AS "keyDigest",
      ${buildKnownPasskeys('operator_passkeys', 'operator_id = operators.id')} AS passkeys
    FROM operators WHERE id = $1`,
};
const READ_PASSKEY: Statement = {
  name: 'operator_passkeys_read',
  text: `SELECT ${listKeyColumns('operators')}, operators.name, scopes, operators.id AS "ownerId",
      operator_passkeys.id AS "passkeyId", credential_id AS "credentialId", public_key AS "publicKey",
      is_synced AS "isSynced"
    FROM operator_passkeys JOIN operators ON operators.id = operator_id WHERE credential_id = $1 AND operators.id = $2`,
};
const LIST: Statement = {
  name: 'operator_passkeys_list',
  text: `SELECT ${COLUMNS} FROM operator_passkeys WHERE operator_id = $1 ORDER BY id`,
};
/** Waits for a rotation or a revocation, after which the key is not the current one of a live operator. */
const LOCK_OWNER = 'SELECT id FROM operators WHERE id = $1 AND key_digest = $2 AND revoked_at IS NULL FOR UPDATE';
/** Deleted, because a refused one would be valid again once the last passkey is removed. */
const END_KEY_SESSIONS = 'DELETE FROM console_sessions WHERE operator_id = $1 AND passkey_id IS NULL';
const ADVANCE_COUNTER = buildCounterAdvance('operator_passkeys');
const REMOVE = withAuditEvent({
  name: 'operator_passkeys_remove',
  text: 'DELETE FROM operator_passkeys WHERE id = $1 AND operator_id = $2 RETURNING id',
});

type PasskeyRow = StoredPasskey &
  KeyRow &
  Pick<OperatorIdentity, 'name' | 'scopes'> & { readonly passkeyId: string; readonly isSynced: boolean };

export interface PasskeyOwner {
  readonly id: string;
  readonly name: string;
  readonly keyDigest: SecretDigest;
  readonly passkeys: readonly KnownPasskey[];
}

export type AnswerKind = 'operator_login' | 'operator_confirmation';

export interface VerifiedAnswer {
  readonly operator: OperatorIdentity;
  readonly passkeyId: string;
  /** @returns false when another call has used the challenge, or the counter has not grown */
  readonly use: (transaction: EntityManager) => Promise<boolean>;
}

@Injectable()
export class OperatorPasskeys {
  constructor(
    private readonly dataSource: DataSource,
    private readonly database: Database,
    private readonly challenges: Challenges,
    private readonly relyingParty: RelyingParty,
    private readonly audit: AuditLog,
    private readonly clock: ComparedClock,
  ) {}

  async readOwner(operatorId: string): Promise<PasskeyOwner | undefined> {
    return this.database.row<PasskeyOwner>(READ_OWNER, [operatorId]);
  }

  /** Lists the passkeys, the oldest first. */
  async listPasskeys(operatorId: string): Promise<Passkey[]> {
    return this.database.rows<Passkey>(LIST, [operatorId]);
  }

  /** @returns the options for navigator.credentials.create() */
  async createPasskeyOptions(owner: PasskeyOwner): Promise<PasskeyCreationOptionsResponse> {
    const challenge = await this.issueChallenge('operator_registration', owner);
    return this.relyingParty.createRegistrationOptions(owner, challenge, SELECTION);
  }

  /** Sessions of the console that began with the key alone end with the first passkey. */
  async registerPasskey(
    { id, keyDigest }: Pick<OperatorIdentity, 'id' | 'keyDigest'>,
    { name, answer }: { name: string; answer: object },
    actor: Actor,
  ): Promise<Passkey> {
    const response = parseRegistration(answer);
    const text = response ? readChallenge(response) : '';
    const challenge = await this.challenges.findChallenge('operator_registration', text, id, toContext(keyDigest));
    const verified = response && challenge && (await this.relyingParty.verifyRegistration(response, text, true));
    if (!verified) throw createInvalidRegistration('operator');
    const { transports } = response.response;
    const passkey = { ...verified, ownerId: id, name, transports, now: this.clock.now() };
    return this.dataSource.transaction(async (transaction) => {
      const [current] = await transaction.query<unknown[]>(LOCK_OWNER, [id, keyDigest]);
      if (!current || !(await this.challenges.consumeChallenge(transaction, challenge)))
        throw createInvalidRegistration('operator');
      const added = await insertPasskey(transaction, 'operator_passkeys', passkey);
      await transaction.query(END_KEY_SESSIONS, [id]);
      await this.audit.record(transaction, toEvent('operator.passkey.added', actor, id, added.id));
      return added;
    });
  }

  /** @returns the options for navigator.credentials.get() */
  async createAnswerOptions(kind: AnswerKind, owner: PasskeyOwner): Promise<PasskeyRequestOptionsResponse> {
    const challenge = await this.issueChallenge(kind, owner);
    return this.relyingParty.createAuthenticationOptions(challenge, 'required', owner.passkeys);
  }

  /**
   * Verifies an answer, except for what `use` verifies in the transaction of the act.
   * @returns undefined for an invalid one
   * @throws {ProblemException} validation_failed for what no browser answers
   */
  async verifyAnswer(kind: AnswerKind, answer: object): Promise<VerifiedAnswer | undefined> {
    const response = parseAuthentication(answer);
    const text = readChallenge(response);
    const operatorId = this.challenges.parseChallenge(kind, text)?.userId;
    if (operatorId === undefined) return undefined;
    const values = [Buffer.from(response.id, 'base64url'), operatorId];
    const row = await this.database.row<PasskeyRow>(READ_PASSKEY, values);
    const challenge = row && (await this.challenges.findChallenge(kind, text, operatorId, toContext(row.keyDigest)));
    if (!challenge || isRefusal(determineKeyStatus(row.keyDigest, row, this.clock))) return undefined;
    const requirements = { verification: true, userHandle: false };
    const verified = await this.relyingParty.verifyAuthentication(response, text, row, requirements);
    // Backup eligibility never changes (WebAuthn L3 §7.2), so another authenticator has the key.
    if (verified?.isSynced !== row.isSynced) return undefined;
    const { id, name, scopes, keyDigest, passkeyId } = row;
    const use = async (transaction: EntityManager): Promise<boolean> => {
      if (!(await this.challenges.consumeChallenge(transaction, challenge))) return false;
      const used = [passkeyId, verified.counter, this.clock.now()];
      return (await transaction.query<[unknown, number]>(ADVANCE_COUNTER, used))[1] > 0;
    };
    return { operator: { id, name, scopes, keyDigest }, passkeyId, use };
  }

  /**
   * Ends the sessions of the console that began with it.
   * @throws {ProblemException} not_found
   */
  async removePasskey(operatorId: string, id: string, actor: Actor, transaction?: EntityManager): Promise<void> {
    const event = toEvent('operator.passkey.removed', actor, operatorId, id);
    const removed = isId(id) ? await this.audit.execute(REMOVE, [id, operatorId], event, transaction) : [];
    if (removed.length === 0) throw new ProblemException(problems.notFound);
  }

  private issueChallenge(kind: AnswerKind | 'operator_registration', { id, keyDigest }: PasskeyOwner): Promise<string> {
    return this.challenges.issueChallenge(kind, id, toContext(keyDigest));
  }
}

function toContext(keyDigest: SecretDigest): string {
  return keyDigest.toString('hex');
}

function toEvent(event: AuditEventName, actor: Actor, operatorId: string, passkeyId: string): AuditEvent {
  return {
    event,
    actor,
    subject: operatorId,
    details: { passkey_id: passkeyId },
    logFields: { operator_id: operatorId },
  };
}
