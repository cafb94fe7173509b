/**
 * The pages of what has a key: app credentials, nodes and operators (credential-kinds.tsx). A list, a form for a new one,
 * and a page for each with its life as a time line. What ends a key asks first, on a page that says what will happen.
 */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { RotateRequest, type KeyResponse } from '../admin/key.dto.js';
import { DEFAULT_OVERLAP_HOURS } from '../config/limits.js';
import type { AdminApi } from './admin-api.js';
import { ConsoleRefusal, getSession, readFields, refuseOutdated, type Fields } from './console-requests.js';
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

/** A credential as its pages show it. */
export interface Item {
  readonly id: string;
  /** By which people know it. */
  readonly name: string;
  readonly key: KeyResponse;
  /** In the order of the kind's `head`. */
  readonly cells: readonly ComponentChildren[];
}

export interface Issued {
  readonly item: Item;
  /** The new key, in the forms in which it is needed. */
  readonly secrets: readonly (readonly [name: string, text: string])[];
}

export interface LastUse {
  readonly last_accepted_at: string | null;
  readonly last_accepted_for: string | null;
}

type Act = 'issue' | 'rotate' | 'revoke' | 'change';

/** One kind of credentials, as the operators' API has them. */
export interface Kind {
  readonly address: string;
  readonly title: string;
  readonly noun: string;
  readonly scope: string;
  readonly head: readonly string[];
  readonly filters: readonly FieldProps[];
  readonly fields: readonly FieldProps[];
  /** Whether a person types the name before it is revoked. */
  readonly asksForName: boolean;
  may(request: Request, act: Act): boolean;
  list(request: Request, query: Fields): Promise<{ readonly items: readonly Item[]; readonly next: string | null }>;
  find(request: Request, id: string): Promise<Item>;
  explain?(request: Request, id: string): Promise<LastUse>;
  issue(request: Request, fields: Fields): Promise<Issued>;
  rotate(request: Request, id: string, rotation: RotateRequest): Promise<Issued>;
  revoke(request: Request, id: string): Promise<void>;
  /** The fields that may change, with their values. */
  listChanges(item: Item): readonly FieldProps[];
  change(request: Request, id: string, fields: Fields): Promise<unknown>;
}

export function State({ of: { revoked_at, expires_at, previous_key_expires_at } }: { of: KeyResponse }): VNode {
  const now = new Date().toISOString();
  if (revoked_at !== null) return <span class="bad">revoked</span>;
  if (expires_at !== null && expires_at <= now) return <span class="bad">expired</span>;
  if (previous_key_expires_at !== null && previous_key_expires_at > now) return <span class="warn">two keys</span>;
  return expires_at === null ? <span class="good">live</span> : <span class="warn">live, expires</span>;
}

const EFFECTS = {
  rotate: 'A new key is issued, and works at once. The old one ends as you say below.',
  revoke: 'Its key is refused from the next call on, at every service. This cannot be undone: it would need a new one.',
  change: 'It holds from the next call on.',
} as const;

export abstract class CredentialPages {
  constructor(
    private readonly api: AdminApi,
    private readonly kind: Kind,
  ) {}

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { address, title, noun, head, filters } = this.kind;
    const { items, next } = await this.kind.list(request, query);
    const rows = items.map(({ id, name, key, cells }) => {
      const link = (
        <a href={`${address}/${id}`}>
          <bdi>{name}</bdi>
        </a>
      );
      return <Row cells={[link, <State of={key} />, ...cells, <Moment at={key.last_used_at} />]} />;
    });
    this.send(
      response,
      title,
      <>
        {this.kind.may(request, 'issue') && (
          <p>
            <a href={`${address}/new`}>New {noun}</a>
          </p>
        )}
        <Filters action={address}>
          {filters.map((field) => (
            <Field {...field} value={query[field.name]} />
          ))}
          <Field
            label="State"
            name="live"
            value={query.live}
            options={[
              ['', 'all'],
              ['true', 'live'],
            ]}
          />
          <Field label="Not used since" name="unused_since" value={query.unused_since} />
        </Filters>
        <Table caption={title} head={['Name', 'State', ...head, 'Last used']} rows={rows} />
        <Pager address={address} query={query} next={next} />
      </>,
    );
  }

  @Get('new')
  showNew(@Req() request: Request, @Res() response: Response): void {
    const { address, noun, fields } = this.kind;
    this.send(
      response,
      `New ${noun}`,
      <Form session={getSession(request)} action={address} submit="Issue the key">
        {fields.map((field) => (
          <Field {...field} />
        ))}
        <Field label="Expires at" name="expires_at" hint="Such as 2027-01-31T00:00:00Z. Empty: never." />
      </Form>,
    );
  }

  @Post()
  async issue(@Req() request: Request, @Res() response: Response): Promise<void> {
    this.sendIssued(response, await this.kind.issue(request, readFields(request)));
  }

  @Get(':id')
  async show(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const item = await this.kind.find(request, id);
    const { key, name, cells } = item;
    const { address, head } = this.kind;
    const acts = key.revoked_at === null ? (['rotate', 'change', 'revoke'] as const) : [];
    const offered = acts.filter((act) => this.kind.may(request, act));
    this.send(
      response,
      name,
      <>
        <Facts
          facts={[
            ['Id', <code>{item.id}</code>],
            ['State', <State of={key} />],
            ...head.map((fact, index) => [fact, cells[index]] as const),
            ['Issued', <Moment at={key.created_at} />],
            ['Rotated', <Moment at={key.rotated_at} />],
            ['Old key accepted until', key.previous_key_expires_at && <Moment at={key.previous_key_expires_at} />],
            ['Expires', <Moment at={key.expires_at} />],
            ['Revoked', key.revoked_at && <Moment at={key.revoked_at} />],
            ['Last used', <Moment at={key.last_used_at} />],
          ]}
        />
        <p class="actions">
          {offered.map((act) => (
            <a href={`${address}/${item.id}/${act}`}>{toTitle(act)} …</a>
          ))}
        </p>
        <Timeline events={await readTimeline(this.api, request, item.id)} subject={item.id} />
      </>,
    );
  }

  @Get(':id/rotate')
  async askRotation(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const hint = 'It ends earlier, with the first use of the new key. 0 ends it at once.';
    const value = String(DEFAULT_OVERLAP_HOURS);
    const field: FieldProps = {
      label: 'Hours for which the old key stays valid',
      name: 'overlap_hours',
      type: 'number',
      value,
      hint,
    };
    await this.ask(request, response, id, 'rotate', [field]);
  }

  @Post(':id/rotate')
  async rotate(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    await this.refuseOutdatedForm(request, id);
    const { overlap_hours = '' } = readFields(request);
    const sent = { overlap_hours: overlap_hours === '' ? undefined : Number(overlap_hours) };
    const rotation = await this.api.read('body', RotateRequest, sent);
    this.sendIssued(response, await this.kind.rotate(request, id, rotation));
  }

  @Get(':id/revoke')
  async askRevocation(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const name = { label: 'Type the name', name: 'name', isRequired: true };
    await this.ask(request, response, id, 'revoke', this.kind.asksForName ? [name] : []);
  }

  @Post(':id/revoke')
  async revoke(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const { name } = await this.refuseOutdatedForm(request, id);
    if (this.kind.asksForName && readFields(request).name !== name)
      throw new ConsoleRefusal(400, 'Not the name', 'What was typed is not the name. Nothing was changed.');
    await this.kind.revoke(request, id);
    response.redirect(303, `${this.kind.address}/${id}`);
  }

  @Get(':id/change')
  async askChange(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    await this.ask(request, response, id, 'change', this.kind.listChanges(await this.kind.find(request, id)));
  }

  @Post(':id/change')
  async change(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    await this.refuseOutdatedForm(request, id);
    await this.kind.change(request, id, readFields(request));
    response.redirect(303, `${this.kind.address}/${id}`);
  }

  private async ask(
    request: Request,
    response: Response,
    id: string,
    act: keyof typeof EFFECTS,
    fields: readonly FieldProps[],
  ): Promise<void> {
    const item = await this.kind.find(request, id);
    const use = await this.kind.explain?.(request, id);
    this.send(
      response,
      `${toTitle(act)} ${item.name}`,
      <Form session={getSession(request)} action={`${this.kind.address}/${id}/${act}`} submit={toTitle(act)}>
        <p role="note">
          {EFFECTS[act]} <LastUsed use={use} lastUsedAt={item.key.last_used_at} />
        </p>
        <input type="hidden" name="seen" value={item.key.updated_at} />
        {fields.map((field) => (
          <Field {...field} />
        ))}
      </Form>,
    );
  }

  private async refuseOutdatedForm(request: Request, id: string): Promise<Item> {
    const item = await this.kind.find(request, id);
    refuseOutdated(request, item.key.updated_at);
    return item;
  }

  private sendIssued(response: Response, { item, secrets }: Issued): void {
    this.send(
      response,
      item.name,
      <>
        <p role="note">The key is shown only here, and only now. Keep it before you leave this page.</p>
        {secrets.map(([name, text]) => (
          <Secret name={name} text={text} />
        ))}
        <p>
          <a href={`${this.kind.address}/${item.id}`}>
            To <bdi>{item.name}</bdi>
          </a>
        </p>
      </>,
    );
  }

  private send(response: Response, title: string, content: VNode): void {
    const { address, scope } = this.kind;
    const session = getSession(response.req);
    sendPage(
      response,
      <Page title={title} session={session} at={address} needs={[scope, 'read']}>
        {content}
      </Page>,
    );
  }
}

function LastUsed({ use, lastUsedAt }: { use: LastUse | undefined; lastUsedAt: string | null }): VNode {
  const at = use?.last_accepted_at ?? lastUsedAt;
  if (at === null) return <>It was never used.</>;
  const seconds = Math.max(0, Math.round((Date.now() - Date.parse(at)) / 1_000));
  return (
    <>
      It was last used <Moment at={at} />, {seconds} s ago{use?.last_accepted_for && `, at ${use.last_accepted_for}`}.
    </>
  );
}

function toTitle(act: string): string {
  return act.charAt(0).toUpperCase() + act.slice(1);
}
