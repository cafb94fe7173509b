/** The pages of households: people, devices, open codes, and what an operator may do about them. */
import { Get, Param, Post, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { type AdminHouseholdMemberResponse, AdminHouseholdResponse } from '../api/admin/households.admin.controller.js';
import { KEY_KINDS } from '../foundation/common/key-kinds.js';
import { ProblemException, problems, refuseField } from '../foundation/problems/problems.js';
import { AdminApi } from './admin-api.js';
import { Confirmations } from './confirmations.js';
import { ConsolePages } from './console-pages.js';
import { getSession, keepForm, readFields, refuseOutdated } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { ENROLMENTS_ADDRESS } from './enrolment-pages.js';
import { HOUSEHOLDS, MEMBER_ACTIONS, USER, type MemberAction, type MemberAddress } from './household-actions.js';
import { CodeTable, DeviceTable, People, PeopleTable, type OpenCode } from './household-tables.js';
import { ResourcePages } from './resource-pages.js';
import type { Description } from './resource-types.js';
import { Moment } from './moments.js';
import type { FieldProps, RefusedForm } from './fields.js';
import { Form } from './forms.js';
import { redirect, sendPage } from './page.js';
import { toAddress } from './addresses.js';
import { listOtherFacts } from './properties.js';
import type { Cells } from './tables.js';

/** The most members that a household can have, and the most devices and codes that a page shows. */
const MAX_ROWS = '100';
type MemberActionAddress = MemberAddress & { readonly action: string };

type CodeAddress = Readonly<Record<'id' | 'kind' | 'codeId', string>>;

interface AskedMember {
  readonly household: AdminHouseholdResponse;
  readonly member: AdminHouseholdMemberResponse;
  readonly action: MemberAction;
}

@ConsolePages('console/households')
export class HouseholdPages extends ResourcePages<AdminHouseholdResponse, AdminHouseholdResponse> {
  constructor(api: AdminApi, confirmations: Confirmations) {
    super(api, HOUSEHOLDS, confirmations);
  }

  /** A form, so that no e-mail address stands in a URL. It leads to the list, whose address has the id of the user. */
  @Post('search')
  @ReadsOnly()
  async search(@Req() request: Request, @Res() response: Response): Promise<void> {
    const query = Object.fromEntries(Object.entries(readFields(request)).filter(([name]) => name !== 'form'));
    keepForm(request, (refused) => this.renderSearch(request, query, refused));
    const user_id = await this.findUserId(request, query.user_id ?? '');
    redirect(response, toAddress(HOUSEHOLDS.address, { ...query, user_id }));
  }

  @Get(':id/members/:userId/:action')
  async askAboutMember(
    @Req() request: Request,
    @Res() response: Response,
    @Param() address: MemberActionAddress,
  ): Promise<void> {
    const asked = await this.findMember(request, address);
    await asked.action.route(this.api.bindTo(request)).requireScope();
    sendPage(response, await this.renderMemberAction(request, asked));
  }

  @Post(':id/members/:userId/:action')
  async actOnMember(
    @Req() request: Request,
    @Res() response: Response,
    @Param() address: MemberActionAddress,
  ): Promise<void> {
    const asked = await this.findMember(request, address);
    refuseOutdated(request, toSeen(asked.member));
    keepForm(request, (refused) => this.renderMemberAction(request, asked, refused));
    await this.confirmations.requireProof(request);
    await asked.action.perform(this.api.bindTo(request), request, address);
    redirect(response, toAddress(this.toAddressOf(asked.household), { done: address.action }));
  }

  @Get(':id/codes/:kind/:codeId')
  async askToCancel(@Req() request: Request, @Res() response: Response, @Param() address: CodeAddress): Promise<void> {
    const { id } = address;
    const household = await this.api.bindTo(request).households.getHousehold(id);
    const { kind, whom, expires_at } = await this.findCode(request, address);
    await this.getCancelRoute(request, kind).requireScope();
    const content = (
      <Form session={getSession(request)} action={request.path} submit="Cancel the code">
        <p role="note">
          The code is unknown from the next call on. Without that it would be valid until <Moment at={expires_at} />.
        </p>
      </Form>
    );
    sendPage(response, this.render(request, `Cancel the ${kind} of ${whom}`, content, household));
  }

  @Post(':id/codes/:kind/:codeId')
  async cancel(@Req() request: Request, @Res() response: Response, @Param() address: CodeAddress): Promise<void> {
    const { kind, codeId } = await this.findCode(request, address);
    await this.getCancelRoute(request, kind)(request, codeId);
    redirect(response, toAddress(`${HOUSEHOLDS.address}/${address.id}`, { done: 'cancel' }));
  }

  private getCancelRoute(request: Request, kind: OpenCode['kind']) {
    const { enrolments, invitations } = this.api.bindTo(request);
    return kind === 'enrolment' ? enrolments.cancelEnrolment : invitations.cancelInvitationByOperator;
  }

  /** @throws {ProblemException} not_found for a code that is not open, or of another household */
  private async findCode(request: Request, { id, kind, codeId }: CodeAddress): Promise<OpenCode> {
    const codes = await this.listCodes(request, id);
    const code = codes.find((each) => each.kind === kind && each.codeId === codeId);
    if (!code) throw new ProblemException(problems.notFound);
    return code;
  }

  private async listCodes(request: Request, household_id: string): Promise<OpenCode[]> {
    const { enrolments, invitations } = this.api.bindTo(request);
    const open = { household_id, open: 'true', limit: MAX_ROWS };
    const [invited, enrolled] = await Promise.all([
      invitations.listAllInvitations(open),
      enrolments.listEnrolments(open),
    ]);
    return [
      ...invited.items.map((code) => ({ ...code, kind: 'invitation', codeId: code.id, whom: 'a person' }) as const),
      ...enrolled.items.map(
        (code) =>
          ({ ...code, kind: 'enrolment', codeId: code.enrolment_id, whom: KEY_KINDS.node.toOwner(code) }) as const,
      ),
    ];
  }

  /** An operator who may not read users names a user by the id. */
  protected override async offerKnown(request: Request, fields: readonly FieldProps[]) {
    if (this.api.bindTo(request).users.searchUsers.isAllowed) return super.offerKnown(request, fields);
    return fields.map((field) => (field.name === USER.name ? { ...field, label: 'Id of the user' } : field));
  }

  protected toCells({ members, active_admins, created_at }: AdminHouseholdResponse): Cells {
    return [<People members={members} active_admins={active_admins} />, <Moment at={created_at} />];
  }

  protected isPossible(): boolean {
    return true;
  }

  protected async describe(
    request: Request,
    id: string,
    household: AdminHouseholdResponse,
  ): Promise<Description & { readonly use: string }> {
    const { households, nodes, users, enrolments } = this.api.bindTo(request);
    const [people, devices, codes] = await Promise.all([
      households.listHouseholdMembers(id, { limit: MAX_ROWS }),
      nodes.listNodes({ household_id: id, live: 'true', limit: MAX_ROWS }),
      this.listCodes(request, id),
    ]);
    const issuers = codes.map(({ issued_by }) => issued_by);
    // Some of them have left the household.
    const names = users.getUserAsAdmin.isAllowed ? await this.api.names.findNames(issuers) : undefined;
    const members = people.items.map((member) => [member.id, member.email] as const);
    const emails = new Map([...(names ?? []), ...members]);
    const live = `${devices.items.length}${devices.next_cursor === null ? '' : ' or more'}`;
    return {
      facts: [
        ['Name', household.name ?? 'none'],
        ['Since', <Moment at={household.created_at} />],
        ['Members', <People {...household} />],
        ['Live devices', live],
        ...listOtherFacts(AdminHouseholdResponse, household, ['id', 'name', 'created_at', 'members', 'active_admins']),
      ],
      use: `Members: ${household.members}. Live devices: ${live}.`,
      more: (
        <>
          <PeopleTable api={this.api.bindTo(request)} household={household} people={people.items} />
          <DeviceTable devices={devices.items} />
          <p>
            <a href={toAddress('/console/nodes', { household_id: id })}>All devices, including revoked ones</a>
          </p>
          {enrolments.issueEnrolment.isAllowed && (
            <p>
              <a href={toAddress(`${ENROLMENTS_ADDRESS}/new`, { household_id: id })}>Issue an enrolment code</a>
            </p>
          )}
          <CodeTable api={this.api.bindTo(request)} household={household} codes={codes} emails={emails} />
        </>
      ),
    };
  }

  /** A deletion concerns the people and the devices that its page counted, which the household itself does not have. */
  protected override async toSeen(request: Request, action: string, household: AdminHouseholdResponse) {
    const seen = await super.toSeen(request, action, household);
    if (action !== 'delete') return seen;
    const { use } = await this.describe(request, household.id, household);
    return `${seen} ${use}`;
  }

  protected renderIssued(household: AdminHouseholdResponse): string {
    return this.toAddressOf(household);
  }

  protected override async perform(
    request: Request,
    id: string,
    action: string,
    household: AdminHouseholdResponse,
  ): Promise<VNode | string> {
    if (action === 'add-member') return this.addMember(request, id, household);
    const next = await super.perform(request, id, action, household);
    return action === 'delete' ? HOUSEHOLDS.address : next;
  }

  private async addMember(request: Request, id: string, household: AdminHouseholdResponse): Promise<string> {
    const { user_id: user = '', role } = readFields(request);
    const user_id = await this.findUserId(request, user);
    try {
      await this.api.bindTo(request).households.addHouseholdMember(request, id, { user_id, role });
    } catch (error) {
      // The household was found, so it is the user.
      if (error instanceof ProblemException && error.problem === problems.notFound)
        refuseField(`/${USER.name}`, 'is not the id of a user');
      throw error;
    }
    return this.toAddressOf(household);
  }

  /** @param user an id, which is returned as it is, or an e-mail address, which needs the scope users or read */
  private async findUserId(request: Request, user: string): Promise<string> {
    const email = user.trim();
    if (!email.includes('@')) return email;
    const { items } = await this.api.bindTo(request).users.searchUsers({ email });
    return items[0]?.id ?? refuseField(`/${USER.name}`, 'is not the address of a user');
  }

  /** @throws {ProblemException} not_found for a user who is not a member, and for an unknown action */
  private async findMember(request: Request, { id, userId, action: name }: MemberActionAddress): Promise<AskedMember> {
    const { households } = this.api.bindTo(request);
    const household = await households.getHousehold(id);
    const { items } = await households.listHouseholdMembers(id, { limit: MAX_ROWS });
    const member = items.find((each) => each.id === userId);
    const action = Object.hasOwn(MEMBER_ACTIONS, name) ? MEMBER_ACTIONS[name] : undefined;
    if (!member || !action) throw new ProblemException(problems.notFound);
    return { household, member, action };
  }

  private async renderMemberAction(
    request: Request,
    { household, member, action: { title, effect, fields } }: AskedMember,
    refused?: RefusedForm,
  ): Promise<VNode> {
    const isOnlyAdmin = member.role === 'admin' && member.is_active && household.active_admins === 1;
    return this.render(
      request,
      `${title}: ${member.email} in ${HOUSEHOLDS.toName(household)}`,
      <Form
        session={getSession(request)}
        action={request.path}
        submit={title}
        seen={toSeen(member)}
        fields={fields(member)}
        refused={refused}
      >
        <p role="note">
          {effect} {isOnlyAdmin && 'This is the only active admin: without this person the household has none.'}
        </p>
        {await this.confirmations.renderProof(request, refused)}
      </Form>,
      household,
    );
  }
}

/** What a form about a member was shown for: another role, or another membership, outdates it. */
function toSeen({ role, since }: AdminHouseholdMemberResponse): string {
  return `${role} ${since}`;
}
