/**
 * The pages of what operators look after: app credentials, nodes, operators (credential-pages.tsx) and users (users.tsx). A
 * list, a form for a new one, a page for each with its life as a time line, and a page for each action, which says what will
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

export interface Action<Resource> {
  readonly title: string;
  readonly effect: string;
  readonly handler: string;
  /** Whether the operator types the name before it is done. */
  readonly asksForName?: true;
  readonly fields?: (resource: Resource) => readonly FieldProps[];
}

/** One type of resources, as the operators' API has them. */
export interface ResourceType<Resource> {
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
  readonly actions: Readonly<Record<string, Action<Resource>>>;
  readonly nameLabel: string;
  readonly toId: (resource: Resource) => string;
  readonly toName: (resource: Resource) => string;
  /** Under which heading of a list it stands, and where the heading leads. */
  readonly toGroup?: (resource: Resource) => RowGroup;
}

interface ActionAddress {
  readonly id: string;
  readonly action: string;
}

export interface Description {
  readonly facts: FactList;
  /** What would notice an action: in numbers. */
  readonly use: ComponentChildren;
  readonly more?: VNode;
}

export abstract class ResourcePages<Resource extends { readonly updated_at: string }> {
  constructor(
    protected readonly api: AdminApi,
    protected readonly type: ResourceType<Resource>,
  ) {}

  protected abstract toCells(resource: Resource): Cells;
  protected abstract describe(request: Request, id: string, resource: Resource): Promise<Description>;
  protected abstract isPossible(action: string, resource: Resource): boolean;
  /** @returns a page that is shown once, or the address that shows what was made */
  protected abstract issue(request: Request): Promise<VNode | string>;
  /** @returns a page that is shown once; otherwise the page of the resource, or the list, is next */
  protected abstract perform(request: Request, id: string, action: string, resource: Resource): Promise<VNode | string>;

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { address, title, noun, handlers, head, filters } = this.type;
    if (query.search !== undefined && isId(query.search.trim())) {
      response.redirect(303, `${address}/${query.search.trim()}`);
      return;
    }
    const read = await this.api.read('query', this.type.query, query);
    const page = (await this.call(request, handlers.list, read)) as { items: Resource[]; next_cursor: string | null };
    const { toGroup, toName } = this.type;
    const items = toGroup ? page.items.toSorted((one, other) => (toName(one) < toName(other) ? -1 : 1)) : page.items;
    const rows = items.map((resource) => [
      <a href={this.toAddressOf(resource)}>
        <bdi>{toName(resource)}</bdi>
      </a>,
      ...this.toCells(resource),
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
    const { address, noun, fields, submit } = this.type;
    const form = <Form session={getSession(request)} action={address} submit={submit} fields={fields} />;
    this.send(response, `New ${noun}`, form);
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    this.sendResult(response, `New ${this.type.noun}`, await this.issue(request));
  }

  @Get(':id')
  async show(@Req() request: Request, @Res() response: Response, @Param('id') id: string): Promise<void> {
    const resource = await this.find(request, id);
    const { facts, more } = await this.describe(request, id, resource);
    const offered = Object.entries(this.type.actions).filter(
      ([name, { handler }]) => this.may(request, handler) && this.isPossible(name, resource),
    );
    this.send(
      response,
      this.type.toName(resource),
      <>
        <Facts facts={[['Id', <code>{id}</code>], ...facts]} />
        <p class="actions">
          {offered.map(([name, { title }]) => (
            <a href={`${this.type.address}/${id}/${name}`}>{title} …</a>
          ))}
        </p>
        {more}
        <Timeline events={await readEvents(this.api, request, { subject: id })} filter={{ subject: id }} />
      </>,
    );
  }

  @Get(':id/:action')
  async ask(@Req() request: Request, @Res() response: Response, @Param() { id, action }: ActionAddress): Promise<void> {
    const { title, effect, asksForName, fields } = this.findAction(action);
    const resource = await this.find(request, id);
    const { use } = await this.describe(request, id, resource);
    const { address, nameLabel, toName } = this.type;
    const toType = asksForName ? [{ label: nameLabel, name: 'name', isRequired: true }] : [];
    this.send(
      response,
      `${title}: ${toName(resource)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${action}`}
        submit={title}
        seen={resource.updated_at}
        fields={[...(fields?.(resource) ?? []), ...toType]}
      >
        <p role="note">
          {effect} {use}
        </p>
      </Form>,
    );
  }

  @Post(':id/:action')
  async action(
    @Req() request: Request,
    @Res() response: Response,
    @Param() { id, action }: ActionAddress,
  ): Promise<void> {
    const { title, asksForName } = this.findAction(action);
    const resource = await this.find(request, id);
    refuseOutdated(request, resource.updated_at);
    if (asksForName && readFields(request).name !== this.type.toName(resource))
      throw new ConsoleRefusal(400, 'Not the name', 'What was typed is not the name. Nothing was changed.');
    this.sendResult(
      response,
      `${title}: ${this.type.toName(resource)}`,
      await this.perform(request, id, action, resource),
    );
  }

  protected toAddressOf(resource: Resource): string {
    return `${this.type.address}/${this.type.toId(resource)}`;
  }

  protected call(request: Request, handler: string, ...values: unknown[]): Promise<unknown> {
    return this.api.callNamed(request, this.type.controller, handler, ...values);
  }

  private async find(request: Request, id: string): Promise<Resource> {
    return (await this.call(request, this.type.handlers.find, id)) as Resource;
  }

  private may(request: Request, handler: string): boolean {
    return this.api.mayCall(getSession(request), this.type.controller, handler);
  }

  protected findAction(name: string): Action<Resource> {
    const action = Object.hasOwn(this.type.actions, name) ? this.type.actions[name] : undefined;
    if (!action) throw new ProblemException(problems.notFound);
    return action;
  }

  private sendResult(response: Response, title: string, result: VNode | string): void {
    if (typeof result === 'string') response.redirect(303, result);
    else this.send(response, title, result);
  }

  private send(response: Response, title: string, content: VNode): void {
    const { address, scope } = this.type;
    sendPage(
      response,
      <Page title={title} session={getSession(response.req)} at={address} needs={[scope, 'read']}>
        {content}
      </Page>,
    );
  }
}
