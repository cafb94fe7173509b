/**
 * Reauthentication of the operator before actions that show a secret, grant rights or cannot be undone, unless the last one
 * is less than 5 minutes old: a session that was left open or stolen is not enough for them (ASVS 7.5.3). The page of such
 * an action renders the proof into its form, and requires it before it acts. Only actions marked isHarmless do without.
 */
import { Injectable } from '@nestjs/common';
import type { Request } from 'express';
import type { VNode } from 'preact';
import { AdminDoor } from '../api/admin/admin.door.js';
import { toActor } from '../foundation/access/actor.js';
import { computeDigest, isSameDigest } from '../foundation/crypto/secret.js';
import { refuseField } from '../foundation/problems/problems.js';
import { getSession, readFields } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { Field, type RefusedForm } from './fields.js';

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
  ) {}

  /** @returns what the form of the act asks for; null while the last proof is fresh */
  async renderProof(request: Request, refused?: RefusedForm): Promise<VNode | null> {
    if (getSession(request).isConfirmed) return null;
    return Promise.resolve(<Field {...FIELD} error={refused?.errors[FIELD.name]} />);
  }

  /**
   * Call it after keepForm(), so that a missing proof shows the form again.
   * @throws {ProblemException} validation_failed, at the field; invalid_admin_key, which is counted
   */
  async requireProof(request: Request): Promise<void> {
    const session = getSession(request);
    if (session.isConfirmed) return;
    const key = (readFields(request)[FIELD.name] ?? '').trim();
    if (key === '') refuseField(`/${FIELD.name}`, 'is needed again, so nothing was changed');
    await this.door.verifyAdminKey(key, () => toActor(request));
    if (!isSameDigest(computeDigest(key), session.keyDigest))
      refuseField(`/${FIELD.name}`, 'is not the one of this session, so nothing was changed');
    await this.sessions.confirmSession(session);
    // A form that is refused for another field does not ask for the key again.
    request.consoleSession = { ...session, isConfirmed: true };
  }
}
