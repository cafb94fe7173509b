/**
 * The pages of what has a key: app credentials, nodes and operators (credential-kinds.ts). A list, a form for a new one, and
 * a page for each with its life as a time line. What ends a key asks first, on a page that says what will happen.
 */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import type { ExplanationResponse } from '../admin/explanations.admin.controller.js';
import { RotateRequest, type KeyResponse } from '../admin/key.dto.js';
import { DEFAULT_OVERLAP_HOURS } from '../config/limits.js';
import { ProblemException, problems } from '../problems/problems.js';
import { AdminApi } from './admin-api.js';
import {
  ConsolePages,
  ConsoleRefusal,
  getSession,
  readFields,
  refuseOutdated,
  type Fields,
} from './console-requests.js';
import { APPS, NODES, OPERATORS, type Credential, type Kind } from './credential-kinds.js';
import { readTimeline, Timeline } from './timeline.js';
import {
  Facts,
  Field,
  Filters,
  Form,
  Moment,
  Page,
  Pager,
  Row,
  Secret,
  sendPage,
  Table,
  type FieldProps,
} from './view.js';

const EFFECTS = {
  rotate: 'A new key is issued, and works at once. The old one ends as you say below.',
  change: 'It holds from the next call on, at every service.',
  revoke: 'Its key is refused from the next call on, at every service. This cannot be undone: it would need a new one.',
} as const;
type Act = keyof typeof EFFECTS;
const ACTS = Object.keys(EFFECTS) as Act[];
const OVERLAP: FieldProps = {
  label: 'Hours for which the old key stays valid',
  name: 'overlap_hours',
  type: 'number',
  value: String(DEFAULT_OVERLAP_HOURS),
  hint: 'It ends earlier, with the first use of the new key. 0 ends it at once.',
};
const NAME: FieldProps = { label: 'Type the name', name: 'name', isRequired: true };

function show(value: Credential[string] | undefined): string {
  return Array.isArray(value) ? value.join(' ') : (value ?? '');
}

export function State({ of: { revoked_at, expires_at, previous_key_expires_at } }: { of: KeyResponse }): VNode {
  const now = new Date().toISOString();
  if (revoked_at !== null) return <span class="bad">revoked</span>;
  if (expires_at !== null && expires_at <= now) return <span class="bad">expired</span>;
  if (previous_key_expires_at !== null && previous_key_expires_at > now) return <span class="warn">two keys</span>;
  return expires_at === null ? <span class="good">live</span> : <span class="warn">live, expires</span>;
}

abstract class CredentialPages {
  constructor(
    private readonly api: AdminApi,
    private readonly kind: Kind,
  ) {}

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { address, title, noun, columns, filters, idMember } = this.kind;
    const read = await this.api.read('query', this.kind.query, query);
    const page = (await this.call(request, 'list', read)) as { items: Credential[]; next_cursor: string | null };
    const rows = page.items.map((item) => {
      const link = (
        <a href={`${address}/${show(item[idMember])}`}>
          <bdi>{this.kind.toName(item)}</bdi>
        </a>
      );
      const members = columns.map(([, member]) => show(item[member]));
      return <Row cells={[link, <State of={item} />, ...members, <Moment at={item.last_used_at} />]} />;
    });
    this.send(
      response,
      title,
      <>
        {this.may(request, 'issue') && <a href={`${address}/new`}>New {noun}</a>}
        <Filters action={address}>
          {filters.map((field) => (
            <Field {...field} value={query[field.name]} />
          ))}
          <Field label="State" name="live" value={query.live} options={{ '': 'all', true: 'live' }} />
          <Field label="Not used since" name="unused_since" value={query.unused_since} />
        </Filters>
        <Table caption={title} head={['Name', 'State', ...columns.map(([name]) => name), 'Last used']} rows={rows} />
        <Pager address={address} query={query} next={page.next_cursor} />
      </>,
    );
  }

  @Get('new')
  showNew(@Req() request: Request, @Res() response: Response): void {
    const { address, noun, fields } = this.kind;
    this.send(
      response,
      `New ${noun}`,
      <Form session={getSession(request)} action={address} submit="Issue the key" fields={fields} />,
    );
  }

  @Post()
  async issue(@Req() request: Request, @Res() response: Response): Promise<void> {
    const sent = this.readBody(request, undefined);
    const body = await this.api.read('body', this.kind.issue, sent);
    this.sendIssued(response, (await this.call(request, 'issue', request, body)) as Credential);
  }

  @Get(':id')
  async show(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const item = await this.find(request, id);
    const { address, columns } = this.kind;
    const offered = ACTS.filter((act) => item.revoked_at === null && this.may(request, act));
    this.send(
      response,
      this.kind.toName(item),
      <>
        <Facts
          facts={[
            ['Id', <code>{id}</code>],
            ['State', <State of={item} />],
            ...columns.map(([name, member]) => [name, show(item[member]) || 'all'] as const),
            ['Issued', <Moment at={item.created_at} />],
            ['Rotated', <Moment at={item.rotated_at} />],
            ['Old key accepted until', item.previous_key_expires_at && <Moment at={item.previous_key_expires_at} />],
            ['Expires', <Moment at={item.expires_at} />],
            ['Revoked', item.revoked_at && <Moment at={item.revoked_at} />],
            ['Last used', <Moment at={item.last_used_at} />],
          ]}
        />
        <p class="actions">
          {offered.map((act) => (
            <a href={`${address}/${id}/${act}`}>{toTitle(act)} …</a>
          ))}
        </p>
        <Timeline events={await readTimeline(this.api, request, id)} subject={id} />
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
    const act = toAct(name);
    const item = await this.find(request, id);
    const { explain, address, asksForName } = this.kind;
    const use = explain && (await this.api.callNamed(request, 'explanations', explain, id, {}));
    const changeable = this.kind.fields.filter((field) => this.kind.changes.includes(field.name));
    const fields = {
      rotate: [OVERLAP],
      change: changeable.map((field) => ({ ...field, value: show(item[field.name]) })),
      revoke: asksForName ? [NAME] : [],
    };
    this.send(
      response,
      `${toTitle(act)} ${this.kind.toName(item)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${act}`}
        submit={toTitle(act)}
        seen={item.updated_at}
        fields={fields[act]}
      >
        <p role="note">
          {EFFECTS[act]} <LastUse use={use as ExplanationResponse | undefined} lastUsedAt={item.last_used_at} />
        </p>
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
    const act = toAct(name);
    const item = await this.find(request, id);
    refuseOutdated(request, item.updated_at);
    if (act === 'rotate') {
      const { overlap_hours } = readFields(request);
      const sent = { overlap_hours: overlap_hours ? Number(overlap_hours) : undefined };
      const rotation = await this.api.read('body', RotateRequest, sent);
      this.sendIssued(response, (await this.call(request, act, request, id, rotation)) as Credential);
      return;
    }
    if (act === 'revoke') {
      if (this.kind.asksForName && readFields(request).name !== this.kind.toName(item))
        throw new ConsoleRefusal(400, 'Not the name', 'What was typed is not the name. Nothing was changed.');
      await this.call(request, act, request, id);
    } else {
      const body = await this.api.read('body', this.kind.change, this.readBody(request, item));
      await this.call(request, act, request, id, body);
    }
    response.redirect(303, `${this.kind.address}/${id}`);
  }

  private may(request: Request, act: Act | 'issue'): boolean {
    return this.api.mayCall(getSession(request), this.kind.api, this.kind.handlers[act]);
  }

  private call(request: Request, handler: keyof Kind['handlers'], ...values: unknown[]): Promise<unknown> {
    return this.api.callNamed(request, this.kind.api, this.kind.handlers[handler], ...values);
  }

  private async find(request: Request, id: string): Promise<Credential> {
    return (await this.call(request, 'find', id)) as Credential;
  }

  /** @param before the credential that changes: a field that was emptied becomes null, and an unchanged one is not sent */
  private readBody(request: Request, before: Credential | undefined): object {
    const sent = readFields(request);
    const fields = this.kind.fields.filter(({ name }) => before === undefined || this.kind.changes.includes(name));
    const entries = fields.map(({ name, isList }) => {
      const text = (sent[name] ?? '').trim();
      if (text === (before ? show(before[name]) : '')) return [name, undefined];
      if (text === '') return [name, null];
      return [name, isList ? text.split(/[\s,]+/) : text];
    });
    return Object.fromEntries(entries) as object;
  }

  private sendIssued(response: Response, issued: Credential): void {
    const { address, idMember } = this.kind;
    const name = this.kind.toName(issued);
    this.send(
      response,
      name,
      <>
        <p role="note">The key is shown only here, and only now. Keep it before you leave this page.</p>
        {this.kind.formatKey(issued).map(([format, text]) => (
          <Secret name={format} text={text} />
        ))}
        <p>
          <a href={`${address}/${show(issued[idMember])}`}>
            To <bdi>{name}</bdi>
          </a>
        </p>
      </>,
    );
  }

  private send(response: Response, title: string, content: VNode): void {
    const { address, scope } = this.kind;
    sendPage(
      response,
      <Page title={title} session={getSession(response.req)} at={address} needs={[scope, 'read']}>
        {content}
      </Page>,
    );
  }
}

function LastUse({ use, lastUsedAt }: { use: ExplanationResponse | undefined; lastUsedAt: string | null }): VNode {
  const at = use?.last_accepted_at ?? lastUsedAt;
  if (at === null) return <>It was never used.</>;
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(at)) / 1_000));
  return (
    <>
      It was last used <Moment at={at} />, {seconds} s ago{use?.last_accepted_for && `, at ${use.last_accepted_for}`}.
    </>
  );
}

function toAct(name: string): Act {
  const act = ACTS.find((each) => each === name);
  if (!act) throw new ProblemException(problems.notFound);
  return act;
}

function toTitle(act: Act): string {
  return act.charAt(0).toUpperCase() + act.slice(1);
}

@ConsolePages('console/keys')
export class KeysPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, APPS);
  }
}

@ConsolePages('console/homes')
export class HomesPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, NODES);
  }
}

@ConsolePages('console/operators')
export class OperatorsPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, OPERATORS);
  }
}
