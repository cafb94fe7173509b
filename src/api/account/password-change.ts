import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { Outbox } from '../../domain/mail/outbox.js';
import { NewPasswords } from '../../domain/passwords/new-passwords.js';
import type { VerifiedUser } from '../../domain/passwords/password-verifier.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { Reauthentication, type OwnProof } from '../../domain/second-factors/reauthentication.js';
import type { UseProof } from '../../domain/second-factors/second-factors.service.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { setPassword } from '../../domain/users/account-statements.js';
import type { OwnCall } from '../../foundation/access/actor.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';

/** A user who knows the password changes it. Every other session ends. */
@Injectable()
export class PasswordChange {
  constructor(
    private readonly dataSource: DataSource,
    private readonly reauthentication: Reauthentication,
    private readonly passwords: NewPasswords,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly outbox: Outbox,
    private readonly clock: ComparedClock,
  ) {}

  async changePassword(call: OwnCall, proof: OwnProof, newPassword: string): Promise<void> {
    // Checked before the password is verified, so that a new password that the policy refuses costs no guess.
    const { principal, actor } = call;
    const given = { password: newPassword, email: principal.email, pointer: '/new_password' };
    this.passwords.checkNewPassword(given);
    const change = async (verified: VerifiedUser, useProof: UseProof): Promise<void> => {
      const { id, email: recipient } = verified;
      const passwordHash = await this.passwords.hashNewPassword(given, actor);
      await this.dataSource.transaction(async (transaction) => {
        await useProof(transaction);
        // The password changes before the sessions end: a login with the old password waits for this lock, and is then
        // refused.
        await setPassword(transaction, verified, passwordHash, this.clock.now());
        const count = await this.sessions.endAllSessions(transaction, id, 'password_changed', principal.sessionId);
        const described = { details: { ended_sessions: count }, logFields: { count } };
        const event = toUserEvent('user.password.changed', actor, id, described);
        await this.outbox.recordWithNotice(transaction, event, { kind: 'password_changed', recipient });
      });
    };
    // A refused call waits too, because an earlier try of the same call may have changed the password.
    await this.propagation.propagateAfter(() => this.reauthentication.authorizeAction(call, proof, change));
  }
}
