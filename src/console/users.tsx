/** The pages of users: their state, sessions and factors, and what an operator may do. */
import { Post, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { UserResponse } from '../api/account/user.dto.js';
import type { UserExplanationResponse } from '../api/admin/explanations.admin.controller.js';
import type {
  CreatedUserResponse,
  PasswordResetResponse,
  SessionResponse,
} from '../api/admin/users.admin.controller.js';
import { DESCENDING } from '../foundation/http/page.dto.js';
import { AdminApi } from './admin-api.js';
import { Confirmations } from './confirmations.js';
import { ConsolePages } from './console-pages.js';
import { readFields } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { HouseholdTable } from './household-tables.js';
import { ResourcePages } from './resource-pages.js';
import type { Description, ResourceType } from './resource-types.js';
import { Ago, Moment } from './moments.js';
import { listOtherFacts } from './properties.js';
import { Secret } from './copyable.js';
import { Table, type Cells } from './tables.js';

/** The most live sessions that a user can have, and the most sessions that a page shows. */
const MAX_SESSIONS = '100';
const MAX_HOUSEHOLDS = '100';
const YES_OR_ALL = { '': 'all', true: 'only these' };

const USERS: ResourceType<UserResponse, CreatedUserResponse> = {
  address: '/console/users',
  title: 'Users',
  noun: 'user',
  scope: 'users',
  routes: ({ users }) => ({
    list: users.listUsers,
    search: users.searchUsers,
    find: users.getUserAsAdmin,
    issue: users.createUser,
  }),
  filters: [
    { label: 'Part of the e-mail address, or id', name: 'search' },
    { label: 'Disabled', name: 'disabled', options: YES_OR_ALL },
    { label: 'Without a second factor', name: 'without_factor', options: YES_OR_ALL },
    { label: 'Throttled', name: 'throttled', options: YES_OR_ALL },
  ],
  fields: [{ label: 'E-mail', name: 'email', type: 'email', isRequired: true }],
  submit: 'Invite the user',
  head: ['State', 'Since'],
  orders: { Since: 'created_at', Name: 'email' },
  nameLabel: 'Type the e-mail address',
  actions: {
    disable: {
      title: 'Disable',
      effect: 'All sessions end, and logins are refused.',
      route: ({ users }) => users.updateUser,
      body: { is_active: false },
      isHarmless: true,
    },
    enable: {
      title: 'Enable',
      effect: 'Logins are accepted again.',
      route: ({ users }) => users.updateUser,
      body: { is_active: true },
    },
    'end-sessions': {
      title: 'End all sessions',
      effect: 'The user has to log in again, everywhere.',
      route: ({ users }) => users.endUserSessions,
    },
    unlock: {
      title: 'Unlock',
      effect: 'Wrong passwords and codes of this user are forgotten: the next login is not throttled.',
      route: ({ users }) => users.removeUserThrottles,
    },
    'remove-factors': {
      title: 'Remove all second factors',
      effect: 'All sessions end, and the password alone is enough afterwards: make sure who asks.',
      route: ({ users }) => users.removeUserFactors,
      asksForName: true,
    },
    'reset-password': {
      title: 'Reset the password',
      effect: 'A token is issued, for you to hand over. The one that was issued before ends.',
      route: ({ users }) => users.issuePasswordReset,
    },
    delete: {
      title: 'Delete',
      effect: 'The account and all of its sessions are deleted. This cannot be undone.',
      route: ({ users }) => users.deleteUser,
      asksForName: true,
    },
  },
  toId: ({ id }) => id,
  toName: ({ email }) => email,
};

@ConsolePages('console/users')
export class UserPages extends ResourcePages<UserResponse, CreatedUserResponse> {
  constructor(api: AdminApi, confirmations: Confirmations) {
    super(api, USERS, confirmations);
  }

  /** A form, so that no e-mail address stands in a URL. */
  @Post('search')
  @ReadsOnly()
  async search(@Req() request: Request, @Res() response: Response): Promise<void> {
    const given = Object.entries(readFields(request)).filter(([name, value]) => name !== 'form' && value !== '');
    await this.sendList(request, response, Object.fromEntries(given), this.api.bindTo(request).users.searchUsers);
  }

  protected toCells(user: UserResponse): Cells {
    return [<UserState of={user} />, <Moment at={user.created_at} />];
  }

  protected isPossible(action: string, { is_active }: UserResponse): boolean {
    return action !== (is_active ? 'enable' : 'disable');
  }

  protected async describe(request: Request, id: string, user: UserResponse): Promise<Description> {
    const login = await this.api.bindTo(request).explanations.explainUser(id, {});
    const { live, newest } = await this.listSessions(request, id);
    const factors = login.second_factors.join(', ') || 'none';
    const facts = [
      ['State', <UserState of={user} />],
      ['Since', <Moment at={user.created_at} />],
      ['Address verified', <Moment at={login.email_verified_at} />],
      ['Second factors', factors],
      ['A login now', <LoginNow of={login} />],
      ...listOtherFacts(UserResponse, user, ['id', 'email', 'is_active', 'created_at']),
    ] as const;
    const uses = live.map(({ rotated_at }) => rotated_at).sort();
    const lastUse = uses.length > 0 && <>, last used {<Ago at={uses.at(-1)} />}</>;
    const use = [`Open sessions: ${live.length}`, lastUse, `. Second factors: ${factors}.`];
    const more = (
      <>
        {await this.renderHouseholds(request, id)}
        <SessionTable sessions={newest} />
      </>
    );
    return { facts, use, more };
  }

  /** Left out for an operator who may not read households. */
  private async renderHouseholds(request: Request, user_id: string): Promise<VNode | null> {
    const { listHouseholds } = this.api.bindTo(request).households;
    if (!listHouseholds.isAllowed) return null;
    const { items } = await listHouseholds({ user_id, limit: MAX_HOUSEHOLDS });
    return <HouseholdTable households={items} />;
  }

  /** Without an invitation to hand over, a mail has it. */
  protected renderIssued(user: CreatedUserResponse): VNode | string {
    return user.invitation ? this.renderToken(user, user.invitation) : this.toAddressOf(user);
  }

  protected override async perform(request: Request, id: string, action: string, user: UserResponse) {
    if (action === 'reset-password')
      return this.renderToken(user, await this.api.bindTo(request).users.issuePasswordReset(request, id));
    const next = await super.perform(request, id, action, user);
    return action === 'delete' ? this.type.address : next;
  }

  /** @returns those that are open, and the newest ones, which may have ended */
  private async listSessions(request: Request, id: string): Promise<Record<'live' | 'newest', SessionResponse[]>> {
    const { listUserSessions } = this.api.bindTo(request).users;
    const [{ items: live }, { items: newest }] = await Promise.all([
      listUserSessions(id, { live: 'true', limit: MAX_SESSIONS }),
      listUserSessions(id, { sort: `created_at${DESCENDING}`, limit: MAX_SESSIONS }),
    ]);
    return { live, newest };
  }

  private renderToken(user: UserResponse, issued: PasswordResetResponse): VNode {
    return (
      <>
        <p role="note">
          It is shown only here, and is valid once, until <Moment at={issued.expires_at} />.
        </p>
        {issued.link && <Secret name="Link" text={issued.link} />}
        <Secret name="Token" text={issued.token} />
        <p>
          <a href={this.toAddressOf(user)}>To the user</a>
        </p>
      </>
    );
  }
}

/** Names each throttle with its address and its end, also when another method or address is accepted. */
function LoginNow({ of: { accepted_now, reasons } }: { of: UserExplanationResponse }): VNode {
  const verdict = accepted_now ? (
    <span class="good">would be accepted</span>
  ) : (
    <span class="bad">would be refused</span>
  );
  if (reasons.length === 0) return verdict;
  return (
    <>
      {verdict}
      <ul>
        {reasons.map(({ detail, address, until }) => (
          <li>
            {address !== null && <>From {address}: </>}
            {detail} {until !== null && <>It ends by itself at {<Moment at={until} />}.</>}
          </li>
        ))}
      </ul>
    </>
  );
}

function UserState({ of: { is_active } }: { of: UserResponse }): VNode {
  return is_active ? <span class="good">active</span> : <span class="bad">disabled</span>;
}

function toSessionState({ ended_at, end_reason, expires_at }: SessionResponse): string {
  if (ended_at !== null) return `ended: ${end_reason}`;
  return expires_at > new Date().toISOString() ? 'open' : 'expired';
}

function SessionTable({ sessions }: { sessions: readonly SessionResponse[] }): VNode {
  const rows = sessions.map((session) => [
    <Moment at={session.created_at} />,
    session.created_from,
    session.user_agent,
    <Ago at={session.rotated_at} />,
    toSessionState(session),
  ]);
  return <Table caption="Sessions" head={['Login', 'From', 'Device', 'Last refresh', 'State']} rows={rows} />;
}
