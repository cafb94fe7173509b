import { Injectable } from '@nestjs/common';
import { toUserEvent } from '../../domain/audit/audit-events.js';
import { AuditLog } from '../../domain/audit/audit-log.js';
import { Departures } from '../../domain/households/departures.js';
import type { VerifiedUser } from '../../domain/passwords/password-verifier.js';
import { Propagation } from '../../domain/revocation/propagation.js';
import { Reauthentication, type OwnProof } from '../../domain/second-factors/reauthentication.js';
import type { UseProof } from '../../domain/second-factors/second-factors.service.js';
import { SessionsService } from '../../domain/tokens/sessions.service.js';
import { deleteAccountRow } from '../../domain/users/account-statements.js';
import type { OwnCall } from '../../foundation/access/actor.js';

/** Users delete their own accounts, with the memberships and sessions. */
@Injectable()
export class AccountDeletion {
  constructor(
    private readonly reauthentication: Reauthentication,
    private readonly departures: Departures,
    private readonly sessions: SessionsService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
  ) {}

  async deleteAccount(call: OwnCall, proof: OwnProof): Promise<void> {
    const remove = (verified: VerifiedUser, useProof: UseProof): Promise<void> =>
      this.departures.deleteWithMemberships(verified.id, async (transaction, memberships) => {
        const { id } = verified;
        await useProof(transaction);
        for (const { id: householdId, role } of memberships)
          if (role === 'admin') await this.departures.refuseLastAdmin(transaction, householdId, id);
        await this.departures.endMemberships(transaction, id, memberships, call.actor);
        const count = await this.sessions.deleteSessions(transaction, id);
        await deleteAccountRow(transaction, verified);
        const details = { ended_sessions: count };
        await this.audit.record(transaction, toUserEvent('user.deleted', call.actor, id, { details }));
      });
    await this.propagation.propagateAfter(() => this.reauthentication.authorizeAction(call, proof, remove));
  }
}
