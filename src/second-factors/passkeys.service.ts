import { Injectable } from '@nestjs/common';
import type { Actor } from '../access/actor.js';
import type { UserPrincipal } from '../access/principals.js';
import type { AuditEvent } from '../audit/audit-events.js';
import { AuditLog } from '../audit/audit-log.js';
import { Clock } from '../common/clock.js';
import { createId, isId } from '../common/ids.js';
import { getViolatedConstraint } from '../database/database-failure.js';
import { DatabaseClock, Database } from '../database/database.js';
import { ProblemException, problems } from '../problems/problems.js';
import { createFieldProblem } from '../problems/refused-fields.js';
import { Challenges, toPasswordContext, type PresentedChallenge } from './challenges.js';
import { FactorChanges } from './factor-changes.js';
import { ProvenOwner } from './proven-owner.js';
import * as sql from './factor-statements.js';
import { RelyingParty } from './relying-party.js';
import { SecondFactorsService, type UserWithFactors } from './second-factors.service.js';
import type { PasskeyCreationOptionsResponse } from './webauthn-options.dto.js';
import { parseRegistration, readChallenge, type RegistrationJson } from './webauthn-json.js';

const MAX_PASSKEYS = 20;

export interface Passkey {
  readonly id: string;
  readonly userId: string;
  readonly credentialId: Buffer;
  readonly publicKey: Buffer;
  readonly transports: string[];
  /** Whether the authenticator may copy the private key to other devices. */
  readonly isSynced: boolean;
  readonly name: string;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

/** The passkeys of a user. */
@Injectable()
export class PasskeysService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly database: Database,
    private readonly databaseClock: DatabaseClock,
    private readonly factors: SecondFactorsService,
    private readonly challenges: Challenges,
    private readonly relyingParty: RelyingParty,
    private readonly audit: AuditLog,
    private readonly clock: Clock,
  ) {}

  /**
   * @returns the options of navigator.credentials.create()
   * @throws {ProblemException} wrong_password; not_found; too_many_passkeys; too_many_requests; hashing_busy;
   * invalid_access_token
   */
  async createOptions(
    principal: UserPrincipal,
    password: string,
    actor: Actor,
  ): Promise<PasskeyCreationOptionsResponse> {
    const owner = await this.changes.verifyPassword(principal, password, actor);
    const user = await this.factors.read(owner.userId);
    if (!user) throw new ProblemException(problems.notFound);
    if (user.passkeys.length >= MAX_PASSKEYS) throw new ProblemException(problems.tooManyPasskeys);
    const now = await this.databaseClock.now();
    const challenge = this.challenges.issue('registration', now, user.id, toPasswordContext(owner));
    return this.relyingParty.createRegistrationOptions(user, challenge);
  }

  /**
   * @param answer of the browser to options of this user, which are used once
   * @throws {ProblemException} not_found; validation_failed; passkey_exists; too_many_passkeys; invalid_access_token
   */
  async register(principal: UserPrincipal, name: string, answer: object, actor: Actor): Promise<Passkey> {
    if (!this.relyingParty.isConfigured) throw new ProblemException(problems.notFound);
    const { userId } = principal;
    const user = await this.factors.read(userId);
    const response = parseRegistration(answer);
    const verified = user && response && (await this.verify(user, response));
    if (!response || !verified) throw createInvalidPasskey();
    const { challenge, credential, credentialDeviceType } = verified;
    const passkey: Passkey = {
      id: createId(),
      userId,
      credentialId: Buffer.from(credential.id, 'base64url'),
      publicKey: Buffer.from(credential.publicKey),
      transports: response.response.transports,
      isSynced: credentialDeviceType === 'multiDevice',
      name,
      createdAt: this.clock.now(),
      lastUsedAt: null,
    };
    const owner = ProvenOwner.byEarlierStep(principal, user, createInvalidPasskey);
    return this.insert(owner, challenge, passkey, credential.counter, actor);
  }

  /** Oldest first. At most 20. */
  async list(userId: string): Promise<Passkey[]> {
    return this.database.rows<Passkey>(sql.LIST_PASSKEYS, [userId]);
  }

  /** @throws {ProblemException} not_found, also for a passkey of another user */
  async rename(userId: string, id: string, name: string, actor: Actor): Promise<Passkey> {
    const event = this.toEvent('user.passkey.renamed', userId, id, actor);
    const [renamed] = isId(id) ? await this.audit.execute<Passkey>(sql.RENAME_PASSKEY, [id, userId, name], event) : [];
    if (!renamed) throw new ProblemException(problems.notFound);
    return renamed;
  }

  /**
   * @throws {ProblemException} wrong_password; not_found, also for a passkey of another user; too_many_requests;
   * hashing_busy; invalid_access_token
   */
  async remove(principal: UserPrincipal, id: string, password: string, actor: Actor): Promise<void> {
    const owner = await this.changes.verifyPassword(principal, password, actor);
    if (!isId(id)) throw new ProblemException(problems.notFound);
    await this.changes.run(owner, async (transaction) => {
      const [, count] = await transaction.query<[unknown, number]>(sql.REMOVE_PASSKEY, [id, owner.userId]);
      if (count === 0) throw new ProblemException(problems.notFound);
      return { result: undefined, event: this.toEvent('user.passkey.removed', owner.userId, id, actor) };
    });
  }

  private async verify(user: UserWithFactors, response: RegistrationJson) {
    const text = readChallenge(response);
    const challenge = this.challenges.read('registration', text);
    if (challenge?.userId !== user.id) return undefined;
    if (!this.challenges.isValid(challenge, await this.databaseClock.now(), toPasswordContext(user))) return undefined;
    const verified = await this.relyingParty.verifyRegistration(response, text);
    // The library bounds the id of the answer, not the one that the authenticator states.
    return verified?.credential.id === response.id ? { ...verified, challenge } : undefined;
  }

  private async insert(
    owner: ProvenOwner,
    challenge: PresentedChallenge,
    passkey: Passkey,
    counter: number,
    actor: Actor,
  ): Promise<Passkey> {
    const { id, userId, credentialId, publicKey, transports, isSynced, name, createdAt } = passkey;
    const columns = [id, userId, credentialId, publicKey, counter, transports, isSynced, name, createdAt];
    return this.changes.run(owner, async (transaction) => {
      if (!(await this.challenges.use(transaction, challenge))) throw createInvalidPasskey();
      const [inserted] = await transaction
        .query<Pick<Passkey, 'createdAt'>[]>(sql.INSERT_PASSKEY, [...columns, MAX_PASSKEYS])
        .catch(refuseKnownPasskey);
      if (!inserted) throw new ProblemException(problems.tooManyPasskeys);
      return { result: { ...passkey, ...inserted }, event: this.toEvent('user.passkey.added', userId, id, actor) };
    });
  }

  private toEvent(event: AuditEvent['event'], userId: string, passkeyId: string, actor: Actor): AuditEvent {
    const details = { passkey_id: passkeyId };
    return { event, actor, time: this.clock.now(), subject: userId, details, logFields: { user_id: userId } };
  }
}

function refuseKnownPasskey(error: unknown): never {
  if (getViolatedConstraint(error) === 'passkeys_credential_id_key') throw new ProblemException(problems.passkeyExists);
  throw error;
}

function createInvalidPasskey(): ProblemException {
  const detail =
    'must be the answer of the browser to options of this account, not older than 5 minutes, and used once';
  return createFieldProblem('/passkey', detail);
}
