// What `replay` repeats about households: deletions, the last state of each membership, and the end of every code that
// is older than the restore, because a restore brings back codes that were used or cancelled since.
import { isId } from '../../foundation/common/ids.js';
import { runInParallel, type AdminClient } from './admin-client.js';
import type { ReplayedEvent, Step } from './replay-plan.js';
import type { NodeEnrolmentResponse } from '../../api/admin/enrolments.admin.controller.js';
import type {
  AdminHouseholdMemberResponse,
  AdminHouseholdResponse,
} from '../../api/admin/households.admin.controller.js';
import type { InvitationResponse } from '../../api/households/household.dto.js';

const HOUSEHOLDS = '/households';
const MEMBER_EVENT = /^household\.member\.(added|changed|removed|left)$/;

interface LastState {
  readonly time: number;
  /** Undefined: no longer a member. */
  readonly role: string | undefined;
}

export class HouseholdHistory {
  /** The time of the last deletion of each household. */
  readonly deletions = new Map<string, number>();
  /** The last state of each member, by household and user. */
  private readonly members = new Map<string, Map<string, LastState>>();
  /** Codes that were made until then are older than the restore. */
  private codesUntil = -Infinity;

  noteTime(time: number): void {
    this.codesUntil = Math.max(this.codesUntil, time);
  }

  /** @param subject the id of the household */
  add({ event, time, details }: ReplayedEvent, subject: string): void {
    if (event === 'household.deleted') this.deletions.set(subject, Math.max(time, this.findDeletion(subject)));
    const { user_id: userId, after } = details;
    if (!MEMBER_EVENT.test(event) || userId === undefined || !isId(userId)) return;
    const states = this.members.get(subject) ?? new Map<string, LastState>();
    const known = states.get(userId);
    if (!known || known.time <= time) states.set(userId, { time, role: after?.role });
    this.members.set(subject, states);
  }

  /** @param deletedUsers whose memberships end with their accounts */
  async planSteps(client: AdminClient, deletedUsers: ReadonlySet<string>): Promise<Step[]> {
    const steps: Step[] = [];
    const deleted = new Set<string>();
    await runInParallel([...new Set([...this.deletions.keys(), ...this.members.keys()])], async (id) => {
      const household = await client.find<AdminHouseholdResponse>(`${HOUSEHOLDS}/${id}`);
      if (!household) return;
      // A new node and an import make a deleted household again, with the time at which they do.
      if (Date.parse(household.created_at) <= this.findDeletion(id)) {
        deleted.add(id);
        const path = `${HOUSEHOLDS}/${id}?revoke_nodes=true`;
        steps.push({ action: 'delete', path, subject: household.name ?? id });
        return;
      }
      const states = this.members.get(id);
      if (!states) return;
      const members = await client.list<AdminHouseholdMemberResponse>(`${HOUSEHOLDS}/${id}/members`);
      for (const { id: userId, role, email, since } of members) {
        const last = states.get(userId);
        // An import adds a member without an event of its own.
        if (!last || Date.parse(since) > last.time || deletedUsers.has(userId)) continue;
        const step = { path: `${HOUSEHOLDS}/${id}/members/${userId}`, subject: email };
        if (last.role === undefined) steps.push({ action: 'remove', ...step });
        else if (last.role === 'member' && role === 'admin') steps.push({ action: 'demote', ...step });
      }
    });
    return [...steps, ...(await this.planCodes(client, deleted))];
  }

  private findDeletion(id: string): number {
    return this.deletions.get(id) ?? -Infinity;
  }

  /** @param deleted households whose invitations end with them */
  private async planCodes(client: AdminClient, deleted: ReadonlySet<string>): Promise<Step[]> {
    const isOlder = ({ created_at }: { created_at: string }): boolean => Date.parse(created_at) <= this.codesUntil;
    const invitations = await client.list<InvitationResponse>('/invitations', { open: 'true' });
    const enrolments = await client.list<NodeEnrolmentResponse>('/enrolments', { open: 'true' });
    return [
      ...invitations
        .filter((code) => isOlder(code) && !deleted.has(code.household_id))
        .map(({ id }): Step => ({ action: 'cancel', path: `/invitations/${id}`, subject: `invitation ${id}` })),
      ...enrolments
        .filter(isOlder)
        .map(({ enrolment_id: id }): Step => ({
          action: 'cancel',
          path: `/enrolments/${id}`,
          subject: `enrolment ${id}`,
        })),
    ];
  }
}
