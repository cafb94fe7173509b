/**
 * Creates, renames and deletes households. A deletion ends memberships and open codes with audit events of their own, and
 * revokes live nodes only when the caller says so.
 */
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { HouseholdRole } from '../../foundation/common/names.js';
import { AuditLog } from '../audit/audit-log.js';
import { createId } from '../../foundation/common/ids.js';
import { DatabaseClock } from '../../foundation/database/database.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { isLiveAt } from '../keys/key-record.js';
import type { Node } from '../nodes/node.entity.js';
import { NodesService } from '../nodes/nodes.service.js';
import { Propagation } from '../revocation/propagation.js';
import { Departures } from './departures.js';
import {
  HouseholdActions,
  requireProof,
  type Caller,
  type LockedHousehold,
  type MemberCaller,
} from './household-actions.js';
import { toHouseholdEvent } from './household-audit-events.js';
import { Household } from './household.entity.js';
import type { OwnHousehold } from './households.service.js';
import { insertMember, refuseTooManyHouseholds } from './members.service.js';

const REMOVE_MEMBERS = `WITH removed AS (DELETE FROM household_members WHERE household_id = $1 RETURNING user_id, role)
  SELECT user_id AS "userId", role FROM removed ORDER BY user_id`;
const READ_LIVE_NODES = `SELECT id FROM nodes WHERE household_id = $1 AND ${isLiveAt('$2')} ORDER BY id FOR UPDATE`;

@Injectable()
export class HouseholdLifecycle {
  constructor(
    private readonly dataSource: DataSource,
    private readonly actions: HouseholdActions,
    private readonly departures: Departures,
    private readonly nodes: NodesService,
    private readonly propagation: Propagation,
    private readonly audit: AuditLog,
    private readonly clock: DatabaseClock,
  ) {}

  /** The caller becomes its admin. @throws {ProblemException} too_many_households; too_many_requests */
  async createHousehold(caller: MemberCaller, name: string): Promise<OwnHousehold> {
    await this.actions.countAction(caller);
    const { userId, actor } = caller;
    return this.dataSource.transaction(async (transaction) => {
      await this.actions.lockUsers(transaction, caller);
      await refuseTooManyHouseholds(transaction, userId, { byOperator: false });
      const now = await this.clock.now(transaction);
      const household = { id: createId(), name, createdAt: now, updatedAt: now };
      await transaction.insert(Household, household);
      await insertMember(transaction, household.id, { userId, role: 'admin', now });
      const details = { user_id: userId, after: { name } };
      await this.audit.record(transaction, toHouseholdEvent('household.created', actor, household.id, details));
      return { ...household, role: 'admin' };
    });
  }

  /** Idempotent: the same name is not recorded. */
  async renameHousehold(caller: Caller, id: string, name: string): Promise<void> {
    await this.actions.perform(caller, { id, needs: 'admin' }, async ({ transaction, now, ...household }) => {
      const event = toHouseholdEvent('household.renamed', caller.actor, household.id);
      if (!(await this.audit.recordChange(transaction, event, { name: household.name }, { name }))) return;
      await transaction.update(Household, { id: household.id }, { name, updatedAt: now });
    });
  }

  /**
   * Ends all memberships and open codes. When the call has answered, no verifier accepts one of the memberships.
   * @throws {ProblemException} household_has_nodes; those of {@link HouseholdActions.perform}
   */
  async deleteHousehold(caller: Caller, id: string, { revokesNodes }: { revokesNodes: boolean }): Promise<void> {
    const asked = { id, needs: 'admin', isDeletion: true } as const;
    await this.propagation.propagateAfter(() =>
      this.actions.perform(caller, asked, async (household) => {
        requireProof(caller);
        await this.revokeNodes(caller, household, revokesNodes);
        const { transaction, name } = household;
        await this.departures.cancelCodes(transaction, { householdId: household.id }, caller.actor);
        await this.removeMembers(caller, household);
        await transaction.delete(Household, { id: household.id });
        const details = { before: { name } };
        const event = toHouseholdEvent('household.deleted', caller.actor, household.id, details);
        await this.audit.record(transaction, event);
      }),
    );
  }

  private async revokeNodes({ actor }: Caller, { transaction, id, now }: LockedHousehold, mayRevoke: boolean) {
    const live = await transaction.query<Pick<Node, 'id'>[]>(READ_LIVE_NODES, [id, now]);
    if (live.length > 0 && !mayRevoke) throw new ProblemException(problems.householdHasNodes);
    for (const node of live) {
      const credential = await this.nodes.keys.requireCredential(node.id, transaction);
      await this.nodes.keys.revokeKeyWithin(transaction, credential, actor);
    }
  }

  /** Deletes each membership itself, because the cascade of the deletion would write no audit event. */
  private async removeMembers({ actor }: Caller, { transaction, id }: LockedHousehold): Promise<void> {
    const removed = await transaction.query<{ userId: string; role: HouseholdRole }[]>(REMOVE_MEMBERS, [id]);
    for (const { userId, role } of removed) {
      const details = { user_id: userId, before: { role } };
      await this.audit.record(transaction, toHouseholdEvent('household.member.removed', actor, id, details));
    }
  }
}
