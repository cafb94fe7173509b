/**
 * Reauthentication of the operator, by the passkey of a session that began with one and by the key otherwise, before
 * actions that show a secret, grant rights or cannot be undone, unless the last one is less than 5 minutes old: a session
 * that was left open or stolen is not enough for them (ASVS 7.5.3). The page of such an action renders the proof into its
 * form, and requires it before it acts. Only actions marked isHarmless do without.
 */
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { VNode } from 'preact';
import { AdminDoor } from '../api/admin/admin.door.js';
import { OperatorPasskeys } from '../domain/operators/operator-passkeys.service.js';
import { toActor } from '../foundation/access/actor.js';
import { computeDigest, isSameDigest } from '../foundation/crypto/secret.js';
import { refuseField } from '../foundation/problems/problems.js';
import { getSession, readFields } from './console-requests.js';
import { ConsoleSessions, type ConsoleSession } from './console-sessions.js';
import { Field, type RefusedForm } from './fields.js';
import { PasskeyPrompts } from './passkey-prompts.js';

const FIELD = {
  label: 'Your key, again',
  name: 'key',
  type: 'password',
  isRequired: true,
  hint: 'Asked for again, because your last proof is older than 5 minutes.',
} as const;

@Injectable()
export class Confirmations {
  constructor(
    private readonly door: AdminDoor,
    private readonly sessions: ConsoleSessions,
    private readonly passkeys: OperatorPasskeys,
    private readonly prompts: PasskeyPrompts,
  ) {}

  /** @returns what the form of the act asks for; null while the last proof is fresh */
  async renderProof(request: Request, refused?: RefusedForm): Promise<VNode | null> {
    const { isConfirmed, hasPasskey, principal } = getSession(request);
    if (isConfirmed) return null;
    const owner = hasPasskey && principal.operator && (await this.passkeys.readOwner(principal.operator.id));
    if (owner) return this.prompts.renderProof(request, 'operator_confirmation', owner);
    return <Field {...FIELD} error={refused?.errors[FIELD.name]} />;
  }

  /**
   * Call it after keepForm(), so that a missing proof shows the form again.
   * @throws {ProblemException} validation_failed, at the field; invalid_admin_key, which is counted
   */
  async requireProof(request: Request): Promise<void> {
    const session = getSession(request);
    if (session.isConfirmed) return;
    if (session.hasPasskey) await this.requirePasskey(request, session);
    else await this.requireKey(request, session);
    // A form that is refused for another field does not ask again.
    request.consoleSession = { ...session, isConfirmed: true };
  }

  private async requirePasskey(request: Request, session: ConsoleSession): Promise<void> {
    const verified = await this.prompts.verifyProof(request, 'operator_confirmation');
    const isOwn = verified !== undefined && verified.operator.id === session.principal.operator?.id;
    if (isOwn && (await this.sessions.confirmSession(session, verified))) return;
    throw await this.door.refusePasskey(toActor(request));
  }

  private async requireKey(request: Request, session: ConsoleSession): Promise<void> {
    const key = (readFields(request)[FIELD.name] ?? '').trim();
    if (key === '') refuseField(`/${FIELD.name}`, 'is needed again, so nothing was changed');
    await this.door.verifyAdminKey(key, () => toActor(request));
    if (!isSameDigest(computeDigest(key), session.keyDigest))
      refuseField(`/${FIELD.name}`, 'is not the one of this session, so nothing was changed');
    await this.sessions.confirmSession(session);
  }
}
