/**
 * The pages of what operators look after: app credentials, nodes, operators (credential-pages.tsx) and users (users.tsx). A
 * list, a form for a new one, a page for each with its life as a time line, and a page for each act, which says what will
 * happen before it does it.
 */
import { Get, Param, Post, Query, Req, Res, type Type } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { isId } from '../foundation/common/ids.js';
import type { Scope } from '../foundation/common/names.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import type { AdminApi, Controller } from './admin-api.js';
import { ConsoleRefusal, getSession, readFields, refuseOutdated, type Fields } from './console-requests.js';
import { readEvents, Timeline } from './audit.js';
import { Facts, Filters, Form, Page, Pager, sendPage, Table } from './view.js';
import type { Cells, FactList, FieldProps, RowGroup } from './view.js';

export interface Act<Thing> {
  readonly title: string;
  readonly effect: string;
  readonly handler: string;
  /** Whether the operator types the name before it is done. */
  readonly asksForName?: true;
  readonly fields?: (thing: Thing) => readonly FieldProps[];
}

/** One kind of things, as the operators' API has them. */
export interface Kind<Thing> {
  readonly address: string;
  readonly title: string;
  readonly noun: string;
  readonly controller: Controller;
  /** Of its routes. */
  readonly scope: Scope;
  readonly handlers: Readonly<Record<'list' | 'find' | 'issue', string>>;
  readonly query: Type<object>;
  readonly filters: readonly FieldProps[];
  /** Of the form for a new one. */
  readonly fields: readonly FieldProps[];
  readonly submit: string;
  /** The columns of the list after the name. */
  readonly head: readonly string[];
  readonly acts: Readonly<Record<string, Act<Thing>>>;
  readonly nameLabel: string;
  readonly toId: (thing: Thing) => string;
  readonly toName: (thing: Thing) => string;
  /** Under which heading of a list it stands, and where the heading leads. */
  readonly toGroup?: (thing: Thing) => RowGroup;
}

interface ActAddress {
  readonly id: string;
  readonly act: string;
}

export interface Description {
  readonly facts: FactList;
  /** What would notice an act: in numbers. */
  readonly use: ComponentChildren;
  readonly more?: VNode;
}

export abstract class ThingPages<Thing extends { readonly updated_at: string }> {
  constructor(
    protected readonly api: AdminApi,
    protected readonly kind: Kind<Thing>,
  ) {}

  protected abstract toCells(thing: Thing): Cells;
  protected abstract describe(request: Request, id: string, thing: Thing): Promise<Description>;
  protected abstract isPossible(act: string, thing: Thing): boolean;
  /** @returns a page that is shown once, or the address that shows what was made */
  protected abstract issue(request: Request): Promise<VNode | string>;
  /** @returns a page that is shown once; otherwise the page of the thing, or the list, is next */
  protected abstract perform(request: Request, id: string, act: string, thing: Thing): Promise<VNode | string>;

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { address, title, noun, handlers, head, filters } = this.kind;
    if (query.search !== undefined && isId(query.search.trim())) {
      response.redirect(303, `${address}/${query.search.trim()}`);
      return;
    }
    const read = await this.api.read('query', this.kind.query, query);
    const page = (await this.call(request, handlers.list, read)) as { items: Thing[]; next_cursor: string | null };
    const { toGroup, toName } = this.kind;
    const items = toGroup ? page.items.toSorted((one, other) => (toName(one) < toName(other) ? -1 : 1)) : page.items;
    const rows = items.map((thing) => [
      <a href={this.toAddressOf(thing)}>
        <bdi>{toName(thing)}</bdi>
      </a>,
      ...this.toCells(thing),
    ]);
    const groups = toGroup && items.map(toGroup);
    this.send(
      response,
      title,
      <>
        {this.may(request, handlers.issue) && (
          <p class="actions">
            <a href={`${address}/new`}>New {noun}</a>
          </p>
        )}
        <Filters action={address} fields={filters} query={query} />
        <Table caption={title} head={['Name', ...head]} rows={rows} groups={groups} />
        <Pager address={address} query={query} next={page.next_cursor} />
      </>,
    );
  }

  @Get('new')
  showNew(@Req() request: Request, @Res() response: Response): void {
    const { address, noun, fields, submit } = this.kind;
    const form = <Form session={getSession(request)} action={address} submit={submit} fields={fields} />;
    this.send(response, `New ${noun}`, form);
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    this.sendResult(response, `New ${this.kind.noun}`, await this.issue(request));
  }

  @Get(':id')
  async show(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const thing = await this.find(request, id);
    const { facts, more } = await this.describe(request, id, thing);
    const offered = Object.entries(this.kind.acts).filter(
      ([name, { handler }]) => this.may(request, handler) && this.isPossible(name, thing),
    );
    this.send(
      response,
      this.kind.toName(thing),
      <>
        <Facts facts={[['Id', <code>{id}</code>], ...facts]} />
        <p class="actions">
          {offered.map(([name, { title }]) => (
            <a href={`${this.kind.address}/${id}/${name}`}>{title} …</a>
          ))}
        </p>
        {more}
        <Timeline events={await readEvents(this.api, request, { subject: id })} filter={{ subject: id }} />
      </>,
    );
  }

  @Get(':id/:act')
  async ask(@Req() request: Request, @Res() response: Response, @Param() { id, act }: ActAddress): Promise<void> {
    const { title, effect, asksForName, fields } = this.findAct(act);
    const thing = await this.find(request, id);
    const { use } = await this.describe(request, id, thing);
    const { address, nameLabel, toName } = this.kind;
    const toType = asksForName ? [{ label: nameLabel, name: 'name', isRequired: true }] : [];
    this.send(
      response,
      `${title}: ${toName(thing)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${act}`}
        submit={title}
        seen={thing.updated_at}
        fields={[...(fields?.(thing) ?? []), ...toType]}
      >
        <p role="note">
          {effect} {use}
        </p>
      </Form>,
    );
  }

  @Post(':id/:act')
  async act(@Req() request: Request, @Res() response: Response, @Param() { id, act }: ActAddress): Promise<void> {
    const { title, asksForName } = this.findAct(act);
    const thing = await this.find(request, id);
    refuseOutdated(request, thing.updated_at);
    if (asksForName && readFields(request).name !== this.kind.toName(thing))
      throw new ConsoleRefusal(400, 'Not the name', 'What was typed is not the name. Nothing was changed.');
    this.sendResult(response, `${title}: ${this.kind.toName(thing)}`, await this.perform(request, id, act, thing));
  }

  protected toAddressOf(thing: Thing): string {
    return `${this.kind.address}/${this.kind.toId(thing)}`;
  }

  protected call(request: Request, handler: string, ...values: unknown[]): Promise<unknown> {
    return this.api.callNamed(request, this.kind.controller, handler, ...values);
  }

  private async find(request: Request, id: string): Promise<Thing> {
    return (await this.call(request, this.kind.handlers.find, id)) as Thing;
  }

  private may(request: Request, handler: string): boolean {
    return this.api.mayCall(getSession(request), this.kind.controller, handler);
  }

  protected findAct(name: string): Act<Thing> {
    const act = Object.hasOwn(this.kind.acts, name) ? this.kind.acts[name] : undefined;
    if (!act) throw new ProblemException(problems.notFound);
    return act;
  }

  private sendResult(response: Response, title: string, result: VNode | string): void {
    if (typeof result === 'string') response.redirect(303, result);
    else this.send(response, title, result);
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
