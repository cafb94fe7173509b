/** The pages of users: a list, a form for a new one, a page for each with sessions and factors, and what an operator may do. */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import {
  UpdateUserRequest,
  UsersQuery,
  type PasswordResetResponse,
  type SessionResponse,
  type UsersAdminController,
} from '../admin/users.admin.controller.js';
import { PageQuery } from '../http/page.js';
import { ProblemException, problems } from '../problems/problems.js';
import { RegistrationRequest, type UserResponse } from '../users/users.controller.js';
import { AdminApi } from './admin-api.js';
import {
  ConsolePages,
  ConsoleRefusal,
  getSession,
  readFields,
  refuseOutdated,
  type Fields,
} from './console-requests.js';
import { readTimeline, Timeline } from './timeline.js';
import { Facts, Field, Filters, Form, Moment, Name, Page, Pager, Row, Secret, sendPage, Table } from './view.js';

const ADDRESS = '/console/people';
const SHOWN_SESSIONS = '20';
const YES_OR_ALL = { '': 'all', true: 'only these' };

const EMAIL_TO_TYPE = { label: 'Type the e-mail address', name: 'email', isRequired: true };

interface UserAct {
  readonly title: string;
  readonly effect: string;
  readonly handler: keyof UsersAdminController &
    (
      | 'updateUser'
      | 'deleteUser'
      | 'endUserSessions'
      | 'removeUserFactors'
      | 'removeUserThrottles'
      | 'issuePasswordReset'
    );
  readonly asksForEmail?: true;
}

const ACTS: Readonly<Record<string, UserAct>> = {
  disable: { title: 'Disable', effect: 'All sessions end, and logins are refused.', handler: 'updateUser' },
  enable: { title: 'Enable', effect: 'Logins are accepted again.', handler: 'updateUser' },
  'end-sessions': {
    title: 'End all sessions',
    effect: 'The user has to log in again, everywhere.',
    handler: 'endUserSessions',
  },
  unlock: {
    title: 'Unlock',
    effect: 'Wrong passwords and codes of this user are forgotten: the next login is not throttled.',
    handler: 'removeUserThrottles',
  },
  'remove-factors': {
    title: 'Remove all second factors',
    effect: 'All sessions end, and the password alone is enough afterwards: make sure who asks.',
    handler: 'removeUserFactors',
    asksForEmail: true,
  },
  'reset-password': {
    title: 'Reset the password',
    effect: 'A token is issued, for you to hand over. The one that was issued before ends.',
    handler: 'issuePasswordReset',
  },
  delete: {
    title: 'Delete',
    effect: 'The account and all of its sessions are deleted. This cannot be undone.',
    handler: 'deleteUser',
    asksForEmail: true,
  },
};

function findAct(name: string): UserAct {
  const act = Object.hasOwn(ACTS, name) ? ACTS[name] : undefined;
  if (!act) throw new ProblemException(problems.notFound);
  return act;
}

@ConsolePages('console/people')
export class PeoplePages {
  constructor(private readonly api: AdminApi) {}

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { api } = this;
    const found = await api.call(request, 'users', 'listUsers', await api.read('query', UsersQuery, query));
    const rows = found.items.map((user) => {
      const link = (
        <a href={`${ADDRESS}/${user.id}`}>
          <Name text={user.email} />
        </a>
      );
      return <Row cells={[link, <UserState of={user} />, <Moment at={user.created_at} />]} />;
    });
    send(
      response,
      'People',
      <>
        {api.mayCall(getSession(request), 'users', 'createUser') && (
          <p>
            <a href={`${ADDRESS}/new`}>New user</a>
          </p>
        )}
        <Filters action={ADDRESS}>
          <Field label="Part of the e-mail address" name="search" value={query.search} />
          <Field label="Disabled" name="disabled" value={query.disabled} options={YES_OR_ALL} />
          <Field
            label="Without a second factor"
            name="without_factor"
            value={query.without_factor}
            options={YES_OR_ALL}
          />
          <Field label="Throttled" name="throttled" value={query.throttled} options={YES_OR_ALL} />
        </Filters>
        <Table caption="Users" head={['E-mail', 'State', 'Since']} rows={rows} />
        <Pager address={ADDRESS} query={query} next={found.next_cursor} />
      </>,
    );
  }

  @Get('new')
  showNew(@Req() request: Request, @Res() response: Response): void {
    send(
      response,
      'New user',
      <Form session={getSession(request)} action={ADDRESS} submit="Create the user">
        <Field label="E-mail" name="email" type="email" isRequired />
        <Field label="Password" name="password" type="password" isRequired />
      </Form>,
    );
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    const { email, password } = readFields(request);
    const body = await this.api.read('body', RegistrationRequest, { email, password });
    const { id } = await this.api.call(request, 'users', 'createUser', request, body);
    response.redirect(303, `${ADDRESS}/${id}`);
  }

  @Get(':id')
  async show(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const { api } = this;
    const user = await api.call(request, 'users', 'getUserAsAdmin', id);
    const login = await api.call(request, 'explanations', 'explainUser', id, {});
    const page = await api.read('query', PageQuery, { limit: SHOWN_SESSIONS });
    const sessions = await api.call(request, 'users', 'listUserSessions', id, page);
    const offered = Object.entries(ACTS).filter(
      ([name, { handler }]) =>
        api.mayCall(getSession(request), 'users', handler) && name !== (user.is_active ? 'enable' : 'disable'),
    );
    send(
      response,
      user.email,
      <>
        <Facts
          facts={[
            ['Id', <code>{user.id}</code>],
            ['State', <UserState of={user} />],
            ['Since', <Moment at={user.created_at} />],
            ['Address verified', <Moment at={login.email_verified_at} />],
            ['Second factors', login.second_factors.join(', ') || 'none'],
            [
              'A login now',
              login.accepted_now ? 'would be accepted' : login.reasons.map(({ detail }) => detail).join(' '),
            ],
          ]}
        />
        <p class="actions">
          {offered.map(([name, { title }]) => (
            <a href={`${ADDRESS}/${id}/${name}`}>{title} …</a>
          ))}
        </p>
        <SessionTable sessions={sessions.items} />
        <Timeline events={await readTimeline(api, request, id)} subject={id} />
      </>,
    );
  }

  @Get(':id/:act')
  async ask(
    @Req() request: Request,
    @Res() response: Response,
    @Param('id') id: string,
    @Param('act') name: string,
  ): Promise<void> {
    const { title, effect, asksForEmail } = findAct(name);
    const user = await this.api.call(request, 'users', 'getUserAsAdmin', id);
    send(
      response,
      `${title}: ${user.email}`,
      <Form
        session={getSession(request)}
        action={`${ADDRESS}/${id}/${name}`}
        submit={title}
        seen={user.updated_at}
        fields={asksForEmail ? [EMAIL_TO_TYPE] : []}
      >
        <p role="note">{effect}</p>
      </Form>,
    );
  }

  @Post(':id/:act')
  async act(
    @Req() request: Request,
    @Res() response: Response,
    @Param('id') id: string,
    @Param('act') name: string,
  ): Promise<void> {
    const { api } = this;
    const { handler, asksForEmail } = findAct(name);
    const user = await api.call(request, 'users', 'getUserAsAdmin', id);
    refuseOutdated(request, user.updated_at);
    if (asksForEmail && readFields(request).email !== user.email)
      throw new ConsoleRefusal(
        400,
        'Not the address',
        'What was typed is not the e-mail address. Nothing was changed.',
      );
    if (handler === 'issuePasswordReset') {
      sendToken(response, user, await api.call(request, 'users', handler, request, id));
      return;
    }
    if (handler === 'updateUser') {
      const body = await api.read('body', UpdateUserRequest, { is_active: name === 'enable' });
      await api.call(request, 'users', handler, request, id, body);
    } else await api.call(request, 'users', handler, request, id);
    response.redirect(303, handler === 'deleteUser' ? ADDRESS : `${ADDRESS}/${id}`);
  }
}

function UserState({ of: { is_active } }: { of: UserResponse }): VNode {
  return is_active ? <span class="good">active</span> : <span class="bad">disabled</span>;
}

function SessionTable({ sessions }: { sessions: readonly SessionResponse[] }): VNode {
  const rows = sessions.map((session) => (
    <Row
      cells={[
        <Moment at={session.created_at} />,
        session.created_from,
        session.user_agent,
        <Moment at={session.rotated_at} />,
        session.ended_at === null ? 'open' : `ended: ${session.end_reason}`,
      ]}
    />
  ));
  return <Table caption="Sessions" head={['Login', 'From', 'Device', 'Last refresh', 'State']} rows={rows} />;
}

function sendToken(response: Response, user: UserResponse, issued: PasswordResetResponse): void {
  send(
    response,
    `Reset the password: ${user.email}`,
    <>
      <p role="note">
        It is shown only here, and is valid once, until <Moment at={issued.expires_at} />.
      </p>
      {issued.link && <Secret name="Link" text={issued.link} />}
      <Secret name="Token" text={issued.token} />
      <p>
        <a href={`${ADDRESS}/${user.id}`}>To the user</a>
      </p>
    </>,
  );
}

function send(response: Response, title: string, content: VNode): void {
  sendPage(
    response,
    <Page title={title} session={getSession(response.req)} at={ADDRESS} needs={['users', 'read']}>
      {content}
    </Page>,
  );
}
