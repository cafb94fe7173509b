/** The nodes of a household, which its admins enrol and revoke without an operator. */
import { Injectable } from '@nestjs/common';
import { Environment } from '../../foundation/config/environment.js';
import { isId } from '../../foundation/common/ids.js';
import type { Page, PageRequest } from '../../foundation/database/page.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { isLiveAt } from '../keys/key-record.js';
import { isOpenAt } from '../keys/one-time-codes.js';
import { EnrolmentsService, type EnrolmentRequest, type IssuedEnrolment } from '../nodes/enrolments.service.js';
import type { Node } from '../nodes/node.entity.js';
import { NodesService } from '../nodes/nodes.service.js';
import { Propagation } from '../revocation/propagation.js';
import { HouseholdActions, type LockedHousehold, type MemberCaller } from './household-actions.js';
import { HouseholdsService } from './households.service.js';

const MAX_LIVE_NODES = 50;

/** Counts open enrolments too, so that the limit needs no check when a device uses one. */
const COUNT_NODES = `SELECT
    (SELECT count(*)::integer FROM nodes WHERE household_id = $1 AND ${isLiveAt('$2')})
    + (SELECT count(*)::integer FROM node_enrolments WHERE household_id = $1 AND ${isOpenAt('$2')}) AS count`;

@Injectable()
export class HouseholdNodesService {
  constructor(
    private readonly environment: Environment,
    private readonly actions: HouseholdActions,
    private readonly households: HouseholdsService,
    private readonly nodes: NodesService,
    private readonly enrolments: EnrolmentsService,
    private readonly propagation: Propagation,
  ) {}

  /** Lists the live nodes. @throws {ProblemException} not_found when the user is not a member */
  async listNodes(userId: string, id: string, page: PageRequest): Promise<Page<Node>> {
    const { id: householdId } = await this.households.findOwnHousehold(userId, id);
    const live = { isLive: true, isInOverlap: false, unusedSince: undefined, expiresBefore: undefined };
    return this.nodes.listNodes(page, { householdId, search: undefined, ...live });
  }

  /**
   * Issues a code for a node that only the services of HOUSEHOLD_NODE_TARGETS accept.
   * @throws {ProblemException} enrolment_by_operators_only; household_full; those of {@link HouseholdActions.perform}
   */
  async issueEnrolment(
    caller: MemberCaller,
    id: string,
    asked: Pick<EnrolmentRequest, 'room' | 'name' | 'expiresInMinutes'>,
  ): Promise<IssuedEnrolment> {
    return this.actions.perform(caller, { id, needs: 'admin' }, async ({ transaction, now, ...household }) => {
      const { householdNodeTargets: targets } = this.environment;
      if (!targets) throw new ProblemException(problems.enrolmentByOperatorsOnly);
      const [found] = await transaction.query<{ count: number }[]>(COUNT_NODES, [household.id, now]);
      if (found && found.count >= MAX_LIVE_NODES) throw new ProblemException(problems.householdFull);
      const enrolment = { ...asked, householdId: household.id, targets: [...targets], issuedBy: caller.userId };
      return this.enrolments.insertEnrolment(transaction, enrolment, caller.actor);
    });
  }

  /** Idempotent. When the call has answered, no verifier accepts the node's key. */
  async revokeNode(caller: MemberCaller, id: string, nodeId: string): Promise<void> {
    await this.propagation.propagateAfter(() =>
      this.actions.perform(caller, { id, needs: 'admin' }, (household) =>
        this.revokeNodeWithin(household, nodeId, caller),
      ),
    );
  }

  private async revokeNodeWithin({ transaction, id }: LockedHousehold, nodeId: string, { actor }: MemberCaller) {
    const node = isId(nodeId) ? await this.nodes.keys.requireCredential(nodeId, transaction) : undefined;
    if (node?.householdId !== id) throw new ProblemException(problems.notFound);
    await this.nodes.keys.revokeKeyWithin(transaction, node, actor);
  }
}
