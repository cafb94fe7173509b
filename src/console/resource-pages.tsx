/**
 * The pages that all resources share: app credentials, nodes and operators (credential-pages.tsx), users (users.tsx), and
 * households (households.tsx). Each has a list, a form for a new one, a page with its time line, and a page for each action that says
 * what the action will do.
 */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { isId } from '../foundation/common/ids.js';
import type { OperatorScope } from '../foundation/common/names.js';
import { ProblemException, problems, refuseField } from '../foundation/problems/problems.js';
import type { AdminApi, AdminRoute, AdminRoutes, Unvalidated } from './admin-api.js';
import { getSession, keepForm, readFields, refuseOutdated, type Fields } from './console-requests.js';
import { readEvents, Timeline } from './audit.js';
import type { OfferedPage } from './navigation.js';
import {
  Facts,
  fillFields,
  Filters,
  Form,
  FormError,
  Id,
  Page,
  Pager,
  SearchForm,
  SearchPager,
  sendPage,
  Table,
  toAddress,
} from './view.js';
import type { Cells, FactList, FieldProps, RefusedForm, RowGroup } from './view.js';

/** A field of a form. A list is typed with blanks between its words. */
export interface ResourceField extends FieldProps {
  readonly isList?: boolean;
}

export type ActionRoute = AdminRoute<[request: Request, id: string, body: Unvalidated], unknown>;

export interface Action<Resource> {
  readonly title: string;
  readonly effect: string;
  readonly route: (api: AdminRoutes) => ActionRoute;
  /** What the call sends besides the fields. */
  readonly body?: Unvalidated;
  /** Whether the operator has to type the name to confirm. */
  readonly asksForName?: boolean;
  readonly fields?: (resource: Resource) => readonly ResourceField[];
}

type ListRoute<Resource> = AdminRoute<[query: Unvalidated], { items: Resource[]; next_cursor: string | null }>;

export interface ResourceRoutes<Resource, Issued extends Resource> {
  readonly list: ListRoute<Resource>;
  /** A list whose filters are sent as a form. */
  readonly search?: ListRoute<Resource>;
  readonly find: AdminRoute<[id: string], Resource>;
  /** Undefined when operators make none. */
  readonly issue?: AdminRoute<[request: Request, body: Unvalidated], Issued>;
}

/** One type of resources, as the operators' API has them. */
export interface ResourceType<Resource, Issued extends Resource = Resource> {
  readonly address: string;
  readonly title: string;
  readonly noun: string;
  /** The scope of its routes. */
  readonly scope: OperatorScope;
  readonly routes: (api: AdminRoutes) => ResourceRoutes<Resource, Issued>;
  readonly filters: readonly FieldProps[];
  /** The fields of the form for a new one. */
  readonly fields: readonly ResourceField[];
  readonly submit: string;
  /** The columns of the list after the name. */
  readonly head: readonly string[];
  readonly actions: Readonly<Record<string, Action<Resource>>>;
  readonly nameLabel: string;
  /** The filter of the list by which its rows are grouped. */
  readonly groupedBy?: keyof Resource & string;
  /** The address of the pages of what the rows are grouped by. */
  readonly groupAddress?: string;
  readonly toId: (resource: Resource) => string;
  readonly toName: (resource: Resource) => string;
}

export function showValue(value: unknown): string {
  if (value == null) return '';
  if (Array.isArray(value)) return value.join(' ');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** @returns the label of a field: that of `household_id` is Household */
export function toLabel(name: string): string {
  const words = name.replace(/_id$/, '').replaceAll('_', ' ');
  return words.charAt(0).toUpperCase() + words.slice(1);
}

interface ActionAddress {
  readonly id: string;
  readonly action: string;
}

export interface Description {
  readonly facts: FactList;
  /** Shows in numbers who would notice an action. */
  readonly use: ComponentChildren;
  readonly more?: VNode;
}

export abstract class ResourcePages<Resource extends { readonly updated_at: string }, Issued extends Resource> {
  constructor(
    protected readonly api: AdminApi,
    protected readonly type: ResourceType<Resource, Issued>,
  ) {}

  protected abstract toCells(resource: Resource): Cells;
  protected abstract describe(request: Request, id: string, resource: Resource): Promise<Description>;
  protected abstract isPossible(action: string, resource: Resource): boolean;
  /** @returns a page that is shown once, or the address of the page of the new resource */
  protected abstract renderIssued(issued: Issued): VNode | string;

  @Get()
  async showList(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    await this.sendList(request, response, query, this.getRoutes(request).list);
  }

  protected async sendList(
    request: Request,
    response: Response,
    asked: Fields,
    list: ListRoute<Resource>,
  ): Promise<void> {
    const { done, ...query } = asked;
    const { address, title, noun, head, groupedBy, toName } = this.type;
    if (query.search !== undefined && isId(query.search.trim())) {
      response.redirect(303, `${address}/${query.search.trim()}`);
      return;
    }
    const { search, issue } = this.getRoutes(request);
    const session = getSession(request);
    keepForm(request, (refused) => this.renderSearch(request, query, refused));
    const page = await list(query);
    const items = groupedBy ? page.items.toSorted((one, other) => (toName(one) < toName(other) ? -1 : 1)) : page.items;
    const rows = items.map((resource) => [
      <a href={this.toAddressOf(resource)}>
        <bdi>{toName(resource)}</bdi>
      </a>,
      ...this.toCells(resource),
    ]);
    const groups = groupedBy && items.map((resource) => this.toGroup(groupedBy, resource));
    this.send(
      response,
      title,
      <>
        {this.renderDone(done)}
        {issue?.isAllowed && (
          <p class="actions">
            <a href={`${address}/new`}>New {noun}</a>
          </p>
        )}
        {this.renderFilters(request, query)}
        <Table caption={title} head={['Name', ...head]} rows={rows} groups={groups} />
        {search ? (
          <SearchPager session={session} action={`${address}/search`} query={query} next={page.next_cursor} />
        ) : (
          <Pager address={address} query={query} next={page.next_cursor} />
        )}
      </>,
    );
  }

  /** @returns the list's page without the list, for filters that were refused */
  protected renderSearch(request: Request, query: Fields, refused: RefusedForm): VNode {
    return this.render(request, this.type.title, this.renderFilters(request, query, refused));
  }

  private renderFilters(request: Request, query: Fields, refused?: RefusedForm): VNode {
    const { address, filters: fields } = this.type;
    const { search } = this.getRoutes(request);
    if (!search) return <Filters action={address} fields={fields} query={query} refused={refused} />;
    const asked = { action: `${address}/search`, fields, query, refused };
    return <SearchForm session={getSession(request)} {...asked} />;
  }

  @Get('new')
  showNew(@Req() request: Request, @Res() response: Response): void {
    this.getIssueRoute(request);
    sendPage(response, this.renderNew(request));
  }

  private renderNew(request: Request, refused?: RefusedForm): VNode {
    const { address, noun, submit } = this.type;
    const fields = this.listNewFields();
    const filled = refused ? fillFields(fields, refused) : fields;
    return this.render(
      request,
      `New ${noun}`,
      <Form session={getSession(request)} action={address} submit={submit} fields={filled}>
        {refused && <FormError refused={refused} fields={fields} />}
      </Form>,
    );
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    keepForm(request, (refused) => this.renderNew(request, refused));
    const issue = this.getIssueRoute(request);
    const result = this.renderIssued(await issue(request, this.readBody(request, this.listNewFields())));
    const next = typeof result === 'string' ? toAddress(result, { done: 'new' }) : result;
    this.sendResult(response, `New ${this.type.noun}`, next);
  }

  @Get(':id')
  async show(
    @Req() request: Request,
    @Res() response: Response,
    @Param('id') id: string,
    @Query() { done }: Fields,
  ): Promise<void> {
    const resource = await this.getRoutes(request).find(id);
    const { facts, more } = await this.describe(request, id, resource);
    const routes = this.api.bindTo(request);
    const offered = Object.entries(this.type.actions).filter(
      ([name, { route }]) => route(routes).isAllowed && this.isPossible(name, resource),
    );
    this.send(
      response,
      this.type.toName(resource),
      <>
        {this.renderDone(done)}
        <Facts facts={[['Id', <Id id={id} />], ...facts]} />
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
    this.findAction(action);
    const resource = await this.getRoutes(request).find(id);
    sendPage(response, await this.renderAction(request, { id, action }, resource));
  }

  private async renderAction(
    request: Request,
    { id, action }: ActionAddress,
    resource: Resource,
    refused?: RefusedForm,
  ): Promise<VNode> {
    const { title, effect, asksForName, fields } = this.findAction(action);
    const { use } = await this.describe(request, id, resource);
    const { address, nameLabel, toName } = this.type;
    const toType = asksForName ? [{ label: nameLabel, name: 'name', isRequired: true }] : [];
    const asked = [...(fields?.(resource) ?? []), ...toType];
    return this.render(
      request,
      `${title}: ${toName(resource)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${action}`}
        submit={title}
        seen={resource.updated_at}
        fields={refused ? fillFields(asked, refused) : asked}
      >
        {refused && <FormError refused={refused} fields={asked} />}
        <p role="note">
          {effect} {use}
        </p>
      </Form>,
      [{ address: this.toAddressOf(resource), name: toName(resource) }],
    );
  }

  @Post(':id/:action')
  async action(
    @Req() request: Request,
    @Res() response: Response,
    @Param() { id, action }: ActionAddress,
  ): Promise<void> {
    const { title, asksForName } = this.findAction(action);
    const resource = await this.getRoutes(request).find(id);
    refuseOutdated(request, resource.updated_at);
    keepForm(request, (refused) => this.renderAction(request, { id, action }, resource, refused));
    if (asksForName && readFields(request).name !== this.type.toName(resource))
      refuseField('/name', 'is another one, so nothing was changed');
    const result = await this.perform(request, id, action, resource);
    const next = typeof result === 'string' ? toAddress(result, { done: action }) : result;
    this.sendResult(response, `${title}: ${this.type.toName(resource)}`, next);
  }

  /** @returns a page that is shown once, or the address of the next page */
  protected async perform(request: Request, id: string, action: string, resource: Resource): Promise<VNode | string> {
    const { route, body, fields } = this.findAction(action);
    const sent = this.readBody(request, fields?.(resource) ?? []);
    await route(this.api.bindTo(request))(request, id, { ...body, ...sent });
    return this.toAddressOf(resource);
  }

  /** @returns the fields of the form for a new one; a value that is left as it is is not sent */
  protected listNewFields(): readonly ResourceField[] {
    return this.type.fields;
  }

  protected toAddressOf(resource: Resource): string {
    return `${this.type.address}/${this.type.toId(resource)}`;
  }

  /** @returns the heading of rows that have the same value of a field, with the address of their list */
  protected toGroup(field: keyof Resource & string, resource: Resource): RowGroup {
    const value = showValue(resource[field]);
    return { text: `${toLabel(field)} ${value}`, address: toAddress(this.type.address, { [field]: value }) };
  }

  protected getRoutes(request: Request): ResourceRoutes<Resource, Issued> {
    return this.type.routes(this.api.bindTo(request));
  }

  /** @throws {ProblemException} not_found when operators make none */
  private getIssueRoute(request: Request) {
    const { issue } = this.getRoutes(request);
    if (!issue) throw new ProblemException(problems.notFound);
    return issue;
  }

  /** @returns the fields that differ from the values in the form, and the required ones; an emptied one is null */
  protected readBody(request: Request, fields: readonly ResourceField[]): Unvalidated {
    const sent = readFields(request);
    const entries = fields.map(({ name, value = '', type, isList, isRequired }) => {
      const given = sent[name] ?? '';
      const text = type === 'password' ? given : given.trim();
      if (text === value && (text === '' || !isRequired)) return [name, undefined];
      if (text === '') return [name, null];
      return [name, isList ? text.split(/[\s,]+/) : type === 'number' ? Number(text) : text];
    });
    return Object.fromEntries(entries) as Unvalidated;
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
    sendPage(response, this.render(response.req, title, content));
  }

  /** Says on the page that follows what was done. @param done `new`, or the name of an action, as the address has it */
  private renderDone(done: string | undefined): VNode | null {
    const { actions, noun } = this.type;
    const action = done !== undefined && Object.hasOwn(actions, done) ? actions[done]?.title : undefined;
    if (action === undefined && done !== 'new') return null;
    return <p role="status">Done: {action ?? `new ${noun}`}.</p>;
  }

  protected render(request: Request, title: string, content: VNode, above?: readonly OfferedPage[]): VNode {
    const { address, scope } = this.type;
    return (
      <Page title={title} session={getSession(request)} at={address} above={above} needs={[scope, 'read']}>
        {content}
      </Page>
    );
  }
}
