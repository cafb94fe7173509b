/**
 * Invitations: an admin issues a one-time code (keys/one-time-codes.ts) of 120 bits, for a link or a QR code, and one
 * person becomes a member with it. Their key space and their throttle are apart from those of enrolments. A code ends
 * with its use, its time, its cancellation, or the role of its issuer (departures.ts).
 */
import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import type { Actor } from '../../foundation/access/actor.js';
import { AuditLog } from '../audit/audit-log.js';
import { addSeconds } from '../../foundation/common/clock.js';
import { createId, isId } from '../../foundation/common/ids.js';
import type { RefusalReason } from '../../foundation/common/security-events.js';
import { Environment } from '../../foundation/config/environment.js';
import { Database, DatabaseClock } from '../../foundation/database/database.js';
import { findPage, toFilter, type Page, type PageRequest } from '../../foundation/database/page.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeThrottle } from '../../foundation/throttling/guess-throttles.js';
import {
  canonicalizeCode,
  CodeMacs,
  determineCodeState,
  generateLongCode,
  isOpenAt,
  type CodeFilter,
  type CodeState,
} from '../keys/one-time-codes.js';
import { buildIsIssuerAdmin } from '../nodes/enrolments.service.js';
import { HouseholdActions, readRole, type LockedHousehold, type MemberCaller } from './household-actions.js';
import { toHouseholdEvent } from './household-audit-events.js';
import { HouseholdInvitation } from './household-invitation.entity.js';
import { HouseholdsService, type OwnHousehold } from './households.service.js';
import { insertMember, refuseFullHousehold, refuseTooManyHouseholds } from './members.service.js';

const MAX_OPEN_INVITATIONS = 20;

export interface InvitationView {
  readonly invitation: HouseholdInvitation;
  readonly state: CodeState;
}

interface IssuedInvitation extends InvitationView {
  /** The only occurrence of the code in plain text. */
  readonly code: string;
}

type Refused = RefusalReason<'household.invitation.refused'>;
type Acceptance = { readonly valid: true; readonly householdId: string } | { readonly valid: false; reason: Refused };

const FIND = {
  name: 'household_invitations_find',
  text: 'SELECT id, household_id AS "householdId" FROM household_invitations WHERE code_mac = ANY ($1::bytea[])',
};
/** An issuer who is no longer an active admin counts as a cancellation. */
const READ = `SELECT id, issued_by AS "issuedBy", expires_at AS "expiresAt", used_at AS "usedAt", used_by AS "usedBy",
    CASE WHEN ${buildIsIssuerAdmin('household_invitations')} THEN cancelled_at
         ELSE COALESCE(cancelled_at, created_at) END AS "cancelledAt"
  FROM household_invitations WHERE id = $1`;
const COUNT_OPEN = `SELECT count(*)::integer AS count FROM household_invitations
  WHERE household_id = $1 AND ${isOpenAt('$2')}`;
/** Conditional, because the disabling of the issuer cancels the code without the lock of the household. */
const USE = `UPDATE household_invitations SET used_at = $2, used_by = $3 WHERE id = $1 AND ${isOpenAt('$2')} RETURNING id`;
const CANCEL = `UPDATE household_invitations SET cancelled_at = $2 WHERE id = $1 AND ${isOpenAt('$2')} RETURNING id`;

@Injectable()
export class InvitationsService {
  private readonly macs: CodeMacs;

  constructor(
    environment: Environment,
    @InjectRepository(HouseholdInvitation) private readonly invitations: Repository<HouseholdInvitation>,
    private readonly database: Database,
    private readonly actions: HouseholdActions,
    private readonly households: HouseholdsService,
    private readonly throttle: CodeThrottle,
    private readonly audit: AuditLog,
    private readonly clock: DatabaseClock,
  ) {
    this.macs = new CodeMacs(environment, 'platform-auth invitation codes v1');
  }

  /** @throws {ProblemException} household_full; those of {@link HouseholdActions.perform} */
  async issueInvitation(caller: MemberCaller, id: string, expiresInHours: number): Promise<IssuedInvitation> {
    const code = generateLongCode();
    return this.actions.perform(caller, { id, needs: 'admin' }, async ({ transaction, now, ...household }) => {
      const [open] = await transaction.query<{ count: number }[]>(COUNT_OPEN, [household.id, now]);
      if (open && open.count >= MAX_OPEN_INVITATIONS) throw new ProblemException(problems.householdFull);
      const invitation = this.invitations.create({
        id: createId(),
        householdId: household.id,
        issuedBy: caller.userId,
        codeMac: this.macs.computeCurrentMac(canonicalizeCode(code)),
        createdAt: now,
        expiresAt: addSeconds(now, expiresInHours * 3_600),
      });
      await transaction.insert(HouseholdInvitation, invitation);
      const details = { invitation_id: invitation.id, expires_at: invitation.expiresAt };
      const event = toHouseholdEvent('household.invitation.issued', caller.actor, household.id, details);
      await this.audit.record(transaction, event);
      return { invitation, state: 'open', code };
    });
  }

  async listInvitations(page: PageRequest, { householdId, isOpen }: CodeFilter): Promise<Page<InvitationView>> {
    const now = await this.clock.now();
    const filters = isOpen ? [toFilter(isOpenAt(':now'), { now })] : [];
    const { items, nextCursor } = await findPage(this.invitations, page, { householdId }, filters);
    return {
      items: items.map((invitation) => ({ invitation, state: determineCodeState(invitation, now) })),
      nextCursor,
    };
  }

  /** Idempotent. @throws {ProblemException} not_found; invitation_used; those of {@link HouseholdActions.perform} */
  async cancelInvitation(caller: MemberCaller, householdId: string, id: string): Promise<void> {
    await this.actions.perform(caller, { id: householdId, needs: 'admin' }, (household) =>
      this.cancelWithin(household, id, caller.actor),
    );
  }

  /** For an operator, who names the invitation without its household. @throws as {@link cancelInvitation} */
  async cancelInvitationByOperator(id: string, actor: Actor): Promise<void> {
    const invitation = isId(id) ? await this.invitations.findOneBy({ id }) : null;
    if (!invitation) throw new ProblemException(problems.notFound);
    const asked = { id: invitation.householdId, needs: 'admin' } as const;
    await this.actions.perform({ actor, userId: null }, asked, (household) => this.cancelWithin(household, id, actor));
  }

  /**
   * The caller becomes a member. Idempotent: while the caller is a member, the code that made them one is accepted again.
   * @throws {ProblemException} not_found; already_member; household_full; too_many_households; too_many_requests
   */
  async acceptInvitation(caller: MemberCaller, code: string): Promise<OwnHousehold> {
    const macs = this.macs.computeMacs(canonicalizeCode(code));
    const { userId, actor } = caller;
    const accepted = await this.throttle.countInvitationGuess<Acceptance>(userId, actor.address, async () => {
      const found = await this.database.row<Pick<HouseholdInvitation, 'id' | 'householdId'>>(FIND, [macs]);
      return found ? this.useInvitation(caller, found) : { valid: false, reason: 'unknown' };
    });
    if (accepted.valid) return this.households.findOwnHousehold(userId, accepted.householdId);
    const refusal = {
      event: 'household.invitation.refused',
      reason: accepted.reason,
      fields: { user_id: userId },
    } as const;
    throw new ProblemException(problems.notFound, { refusal });
  }

  private async useInvitation(
    caller: MemberCaller,
    { id: invitationId, householdId }: Pick<HouseholdInvitation, 'id' | 'householdId'>,
  ): Promise<Acceptance> {
    const { userId, actor } = caller;
    return this.actions.perform(caller, { id: householdId, needs: null }, async (household): Promise<Acceptance> => {
      const { transaction, id, now } = household;
      const [invitation] = await transaction.query<HouseholdInvitation[]>(READ, [invitationId]);
      const role = await readRole(transaction, id, userId);
      const state = invitation ? determineCodeState(invitation, now) : 'cancelled';
      if (state === 'used' && invitation?.usedBy === userId && role) return { valid: true, householdId: id };
      if (state !== 'open') return { valid: false, reason: state };
      if (role) throw new ProblemException(problems.alreadyMember);
      await refuseFullHousehold(household);
      await refuseTooManyHouseholds(transaction, userId, { byOperator: false });
      const [taken] = await transaction.query<[unknown[], number]>(USE, [invitationId, now, userId]);
      if (taken.length === 0) return { valid: false, reason: 'cancelled' };
      await insertMember(transaction, id, { userId, role: 'member', now });
      const details = { user_id: userId, invitation_id: invitationId };
      const used = { ...details, issued_by: invitation?.issuedBy };
      await this.audit.record(transaction, toHouseholdEvent('household.invitation.used', actor, id, used));
      const added = { ...details, after: { role: 'member' } };
      await this.audit.record(transaction, toHouseholdEvent('household.member.added', actor, id, added));
      return { valid: true, householdId: id };
    });
  }

  private async cancelWithin({ transaction, now, ...household }: LockedHousehold, id: string, actor: Actor) {
    const where = { id, householdId: household.id };
    const invitation = isId(id) ? await transaction.findOneBy(HouseholdInvitation, where) : null;
    if (!invitation) throw new ProblemException(problems.notFound);
    if (invitation.usedAt) throw new ProblemException(problems.invitationUsed);
    const [cancelled] = await transaction.query<[unknown[], number]>(CANCEL, [id, now]);
    if (cancelled.length === 0) return;
    const details = { invitation_id: id };
    const event = toHouseholdEvent('household.invitation.cancelled', actor, household.id, details);
    await this.audit.record(transaction, event);
  }
}
