/**
 * The pages that all resources share: app credentials, nodes and operators (credential-pages.tsx), users (users.tsx), and
 * households (households.tsx). Each has a list, a form for a new one, a page with its time line, and for each action a
 * page that says what the action will do. A bulk action changes the rows that the operator chose in the list.
 */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import { isId } from '../foundation/common/ids.js';
import type { OperatorScope } from '../foundation/common/names.js';
import { DESCENDING } from '../foundation/http/page.dto.js';
import { ProblemException, problems, refuseField } from '../foundation/problems/problems.js';
import type { AdminApi, AdminRoute, AdminRoutes, Unvalidated } from './admin-api.js';
import type { Confirmations } from './confirmations.js';
import { getSession, keepForm, readFields, readFilters, refuseOutdated, type Fields } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { readEvents, Timeline } from './audit.js';
import { Ago, readMoments, resolveMoment, resolveMoments } from './moments.js';
import type { OfferedPage } from './navigation.js';
import { showValue, toLabel } from './properties.js';
import { Facts, Pager, Table } from './tables.js';
import { fillFields, splitWords } from './fields.js';
import { Filters, Form, FormError, SearchForm, SearchPager } from './forms.js';
import { Id } from './copyable.js';
import { Page, sendPage, setPageHeaders } from './page.js';
import { toAddress } from './addresses.js';
import type { Cells, Column, FactList, RowGroup } from './tables.js';
import type { FieldProps, RefusedForm } from './fields.js';

export type ActionRoute = AdminRoute<[request: Request, id: string, body: Unvalidated], unknown>;

export interface Action<Resource> {
  readonly title: string;
  readonly effect: string;
  readonly route: (api: AdminRoutes) => ActionRoute;
  /** What the call sends besides the fields. */
  readonly body?: Unvalidated;
  /** Whether the operator has to type the name to confirm. */
  readonly asksForName?: boolean;
  /** Only for an action that shows no secret, grants nothing and does little harm: all others need a fresh proof. */
  readonly isHarmless?: boolean;
  readonly fields?: (resource: Resource) => readonly FieldProps[];
}

export type BulkRoute = AdminRoute<[request: Request, body: Unvalidated], { revoked: string[] }>;

export interface BulkAction<Resource> {
  /** Its name in the address of the page that follows. */
  readonly name: string;
  readonly title: string;
  /** What was done, as a participle: it follows the number of the resources. */
  readonly done: string;
  readonly effect: string;
  /** Undefined when the API has none for this type. */
  readonly route: (api: AdminRoutes) => BulkRoute | undefined;
  readonly isPossible: (resource: Resource) => boolean;
  readonly lastUse: (resource: Resource) => string | null;
}

type ListRoute<Resource> = AdminRoute<[query: Unvalidated], { items: Resource[]; next_cursor: string | null }>;

export interface ResourceRoutes<Resource, Issued extends Resource> {
  readonly list: ListRoute<Resource>;
  /** A list whose filters are sent as a form. */
  readonly search?: ListRoute<Resource>;
  readonly find: AdminRoute<[id: string], Resource>;
  /** Undefined when operators cannot issue this type. */
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
  readonly fields: readonly FieldProps[];
  readonly submit: string;
  /** The columns of the list after the name. */
  readonly head: readonly string[];
  /** The orders of the API, by the columns that have them. The first one is that of the list. */
  readonly orders?: Readonly<Record<string, string>>;
  readonly actions: Readonly<Record<string, Action<Resource>>>;
  /** The titles of actions on its parts, by their names in the address of the page that follows. */
  readonly partActions?: Readonly<Record<string, string>>;
  /** The bulk action. */
  readonly bulk?: BulkAction<Resource>;
  readonly nameLabel: string;
  /** The filter of the list by which its rows are grouped. */
  readonly groupedBy?: keyof Resource & string;
  /** The address of the pages of what the rows are grouped by. */
  readonly groupAddress?: string;
  readonly toId: (resource: Resource) => string;
  readonly toName: (resource: Resource) => string;
}

const DAY_MS = 86_400_000;
/** Puts lamp 2 before lamp 10. */
const NATURAL = new Intl.Collator('en', { numeric: true });
/** The resources that the page of a bulk action names; it counts the others. */
const MAX_NAMED = 10;

function countNouns(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

const listMoments = (fields: readonly FieldProps[]): string[] =>
  fields.filter(({ type }) => type === 'moment').map(({ name }) => name);

/** Whether a form sent what a field showed: check boxes may change the order of a list, a calendar shows whole seconds. */
function isSame(text: string, { value = '', type, isList }: FieldProps): boolean {
  if (isList) return splitWords(text).toSorted().join() === splitWords(value).toSorted().join();
  if (type === 'moment') return text.slice(0, 19) === value.slice(0, 19);
  return text === value;
}

function Choice({ id, name }: { id: string; name: string }): VNode {
  return <input type="checkbox" name="ids" value={id} aria-label={`Choose ${name}`} />;
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

export abstract class ResourcePages<
  Resource extends { readonly created_at: string; readonly updated_at?: string },
  Issued extends Resource,
> {
  constructor(
    protected readonly api: AdminApi,
    protected readonly type: ResourceType<Resource, Issued>,
    protected readonly confirmations: Confirmations,
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
    const { done, count, ...typed } = asked;
    const { address, title, noun, filters, toName } = this.type;
    const session = getSession(request);
    const moments = listMoments(filters);
    const query = readFilters(request, address, moments, typed);
    if (!query) return;
    const id = query.search?.trim();
    if (id !== undefined && isId(id)) {
      response.redirect(303, `${address}/${id}`);
      return;
    }
    const { search, issue } = this.getRoutes(request);
    keepForm(request, (refused) => this.renderSearch(request, query, refused));
    const page = await list({ ...resolveMoments(moments, query), sort: this.getOrder(query) });
    const items = this.isGrouped(query)
      ? page.items.toSorted((one, other) => NATURAL.compare(toName(one), toName(other)))
      : page.items;
    this.send(
      response,
      title,
      <>
        {this.renderDone(done, count)}
        {issue?.isAllowed && (
          <p class="actions">
            <a href={`${address}/new`}>New {noun}</a>
          </p>
        )}
        {await this.renderFilters(request, query)}
        {await this.renderTable(request, query, items)}
        {search ? (
          <SearchPager session={session} action={`${address}/search`} query={query} next={page.next_cursor} />
        ) : (
          <Pager address={address} query={query} next={page.next_cursor} />
        )}
      </>,
    );
  }

  /** @returns the list, with a check box for each row that the bulk action may change */
  private async renderTable(request: Request, query: Fields, items: readonly Resource[]): Promise<VNode> {
    const { address, title, head, groupedBy, bulk, toId, toName } = this.type;
    const groups = groupedBy && this.isGrouped(query) ? await this.nameGroups(groupedBy, items) : undefined;
    const possible = new Set(bulk?.route(this.api.bindTo(request))?.isAllowed ? items.filter(bulk.isPossible) : []);
    const rows = items.map((resource) => [
      ...(possible.size > 0 ? [possible.has(resource) && <Choice id={toId(resource)} name={toName(resource)} />] : []),
      <a href={this.toAddressOf(resource)}>
        <bdi>{toName(resource)}</bdi>
      </a>,
      ...this.toCells(resource),
    ]);
    const columns = [...(possible.size > 0 ? ['Choose'] : []), ...this.listColumns(query, ['Name', ...head])];
    const table = <Table caption={title} head={columns} rows={rows} groups={groups} />;
    if (!bulk || possible.size === 0) return table;
    const form = { session: getSession(request), action: `${address}/choose`, layout: 'many' };
    const filter = <input type="hidden" name="filter" value={toAddress('', { ...query, cursor: undefined })} />;
    return (
      <>
        <Form {...form} submit={`${bulk.title} the chosen ones …`}>
          {filter}
          {table}
        </Form>
        <Form {...form} submit={`${bulk.title} all ${possible.size} of this page …`} look="outline secondary">
          {filter}
          <input type="hidden" name="ids" value={[...possible].map(toId).join(' ')} />
        </Form>
      </>
    );
  }

  private getOrder(query: Fields): string | undefined {
    return query.sort ?? Object.values(this.type.orders ?? {})[0];
  }

  /** Whether the rows of a group follow each other, also from page to page. */
  private isGrouped(query: Fields): boolean {
    return this.type.groupedBy !== undefined && this.getOrder(query)?.replace(DESCENDING, '') === this.type.groupedBy;
  }

  /** @returns the columns, with links to the other orders of the list */
  private listColumns(query: Fields, texts: readonly string[]): Column[] {
    const { address, orders = {}, groupedBy } = this.type;
    return texts.map((text) => {
      const name = orders[text];
      // A searched part of an e-mail address must not stand in the address of a page.
      if (name === undefined || query.search) return text;
      const now = this.getOrder(query);
      const order = now === name ? 'ascending' : now === name + DESCENDING ? 'descending' : undefined;
      const sort = order === 'ascending' ? name + DESCENDING : name;
      const shown = name === groupedBy ? `${toLabel(name)}, ${text.toLowerCase()}` : text;
      return { text: shown, order, address: toAddress(address, { ...query, cursor: undefined, sort }) };
    });
  }

  /** Asks for confirmation of the bulk action. It changes nothing, so a reload may send it again. */
  @Post('choose')
  @ReadsOnly()
  async choose(@Req() request: Request, @Res() response: Response): Promise<void> {
    sendPage(response, await this.renderBulk(request));
  }

  private async renderBulk(request: Request, refused?: RefusedForm): Promise<VNode> {
    const { address, noun, toId } = this.type;
    const bulk = this.findBulk(request);
    const { filter = '' } = readFields(request);
    const chosen = (await this.findChosen(request)).filter(bulk.isPossible);
    const count = countNouns(chosen.length, noun);
    if (chosen.length === 0)
      return this.render(
        request,
        bulk.title,
        <>
          <p role="alert">
            Choose at least one {noun} in the list: those that can be {bulk.done} have a check box.
          </p>
          <p>
            <a href={address}>Back to the list</a>
          </p>
        </>,
      );
    return this.render(
      request,
      `${bulk.title} ${count}`,
      <>
        {refused && <FormError refused={refused} fields={[]} />}
        {await this.describeChosen(chosen, bulk)}
        <Form session={getSession(request)} action={`${address}/chosen`} submit={`${bulk.title} ${count}`}>
          <input type="hidden" name="ids" value={chosen.map(toId).join(' ')} />
          <input type="hidden" name="filter" value={filter} />
          {await this.confirmations.renderProof(request, refused)}
        </Form>
        <p>
          <a href={toAddress(address, this.readFilter(filter))}>Back to the list</a>
        </p>
      </>,
    );
  }

  /** Says how many there are, names the first ones, and shows who would notice. */
  private async describeChosen(
    chosen: readonly Resource[],
    { effect, lastUse }: Pick<BulkAction<Resource>, 'effect' | 'lastUse'>,
  ): Promise<VNode> {
    const { groupedBy, toName } = this.type;
    const named = chosen.slice(0, MAX_NAMED);
    const groups = groupedBy && (await this.nameGroups(groupedBy, named));
    const dayAgo = new Date(Date.now() - DAY_MS).toISOString();
    const used = chosen.filter((each) => (lastUse(each) ?? '') > dayAgo).length;
    return (
      <>
        <p role="note">
          {effect} Used in the last 24 hours: {used} of {chosen.length}.
        </p>
        <ul>
          {named.map((each, index) => (
            <li>
              <a href={this.toAddressOf(each)}>
                <bdi>{toName(each)}</bdi>
              </a>
              {groups?.[index] && `, ${groups[index].text} (${groups[index].id})`}, last used:{' '}
              <Ago at={lastUse(each)} />
            </li>
          ))}
          {chosen.length > MAX_NAMED && <li>and {chosen.length - MAX_NAMED} more</li>}
        </ul>
      </>
    );
  }

  @Post('chosen')
  async actOnChosen(@Req() request: Request, @Res() response: Response): Promise<void> {
    const { name, route } = this.findBulk(request);
    keepForm(request, (refused) => this.renderBulk(request, refused));
    await this.confirmations.requireProof(request);
    const { ids = '', filter = '' } = readFields(request);
    const { revoked } = await route(request, { ids: splitWords(ids) });
    setPageHeaders(response);
    const after = { ...this.readFilter(filter), done: name, count: String(revoked.length) };
    response.redirect(303, toAddress(this.type.address, after));
  }

  /** Reads them one by one, so that a long list takes one connection of the pool. Unknown ids are left out. */
  private async findChosen(request: Request): Promise<Resource[]> {
    const { find } = this.getRoutes(request);
    const chosen: Resource[] = [];
    for (const id of new Set(splitWords(readFields(request).ids ?? ''))) {
      const isUnknown = (error: unknown) => error instanceof ProblemException && error.problem === problems.notFound;
      const found = await find(id).catch((error: unknown) => {
        if (!isUnknown(error)) throw error;
      });
      if (found) chosen.push(found);
    }
    return chosen;
  }

  /** @returns the filters of the list from which the resources were chosen */
  private readFilter(filter: string): Fields {
    const sent = new URLSearchParams(filter.replace(/^[?]/, ''));
    return Object.fromEntries(
      ['sort', ...this.type.filters.map(({ name }) => name)].map((name) => [name, sent.get(name) ?? undefined]),
    );
  }

  /** @throws {ProblemException} not_found when the resource has no bulk action */
  private findBulk(request: Request): Omit<BulkAction<Resource>, 'route'> & { readonly route: BulkRoute } {
    const { bulk } = this.type;
    const route = bulk?.route(this.api.bindTo(request));
    if (!bulk || !route) throw new ProblemException(problems.notFound);
    return { ...bulk, route };
  }

  /** @returns the list's page without the list, for filters that were refused */
  protected async renderSearch(request: Request, query: Fields, refused: RefusedForm): Promise<VNode> {
    return this.render(request, this.type.title, await this.renderFilters(request, query, refused));
  }

  private async renderFilters(request: Request, query: Fields, refused?: RefusedForm): Promise<VNode> {
    const { address, filters } = this.type;
    const { search } = this.getRoutes(request);
    const fields = await this.offerKnown(request, filters);
    if (!search) return <Filters action={address} fields={fields} query={query} refused={refused} />;
    const asked = { action: `${address}/search`, fields, query, refused };
    return <SearchForm session={getSession(request)} {...asked} />;
  }

  @Get('new')
  async showNew(@Req() request: Request, @Res() response: Response): Promise<void> {
    this.getIssueRoute(request);
    sendPage(response, await this.renderNew(request));
  }

  private async renderNew(request: Request, refused?: RefusedForm): Promise<VNode> {
    const { address, noun, submit } = this.type;
    const fields = await this.offerKnown(request, this.listNewFields());
    const filled = refused ? fillFields(fields, refused) : fields;
    return this.render(
      request,
      `New ${noun}`,
      <Form session={getSession(request)} action={address} submit={submit} fields={filled}>
        {refused && <FormError refused={refused} fields={fields} />}
        {await this.confirmations.renderProof(request, refused)}
      </Form>,
    );
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    keepForm(request, (refused) => this.renderNew(request, refused));
    const issue = this.getIssueRoute(request);
    await this.confirmations.requireProof(request);
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
    const { title, effect, asksForName, isHarmless, fields } = this.findAction(action);
    const { use } = await this.describe(request, id, resource);
    const { address, nameLabel, toName } = this.type;
    const toType = asksForName ? [{ label: nameLabel, name: 'name', isRequired: true }] : [];
    const asked = [...(await this.offerKnown(request, fields?.(resource) ?? [])), ...toType];
    return this.render(
      request,
      `${title}: ${toName(resource)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${action}`}
        submit={title}
        {...(resource.updated_at !== undefined && { seen: resource.updated_at })}
        fields={refused ? fillFields(asked, refused) : asked}
      >
        {refused && <FormError refused={refused} fields={asked} />}
        <p role="note">
          {effect} {use}
        </p>
        {!isHarmless && (await this.confirmations.renderProof(request, refused))}
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
    const { title, asksForName, isHarmless } = this.findAction(action);
    const resource = await this.getRoutes(request).find(id);
    refuseOutdated(request, resource.updated_at);
    keepForm(request, (refused) => this.renderAction(request, { id, action }, resource, refused));
    if (asksForName && readFields(request).name !== this.type.toName(resource))
      refuseField('/name', 'is another one, so nothing was changed');
    if (!isHarmless) await this.confirmations.requireProof(request);
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
  protected listNewFields(): readonly FieldProps[] {
    return this.type.fields;
  }

  /** @returns the fields with the values that exist, for an operator who may read them */
  protected async offerKnown(_request: Request, fields: readonly FieldProps[]): Promise<readonly FieldProps[]> {
    return Promise.resolve(fields);
  }

  protected toAddressOf(resource: Resource): string {
    return `${this.type.address}/${this.type.toId(resource)}`;
  }

  /** @returns the headings of rows that have the same value of a field, with the address of their list */
  private async nameGroups(field: keyof Resource & string, items: readonly Resource[]): Promise<RowGroup[]> {
    const ids = items.map((resource) => showValue(resource[field]));
    const names = await this.api.names.findNames(ids);
    return ids.map((id) => {
      const text = `${toLabel(field)} ${names.get(id) ?? 'without a name'}`;
      return { id, text, address: toAddress(this.type.address, { [field]: id }) };
    });
  }

  protected getRoutes(request: Request): ResourceRoutes<Resource, Issued> {
    return this.type.routes(this.api.bindTo(request));
  }

  /** @throws {ProblemException} not_found when operators cannot issue this type */
  private getIssueRoute(request: Request) {
    const { issue } = this.getRoutes(request);
    if (!issue) throw new ProblemException(problems.notFound);
    return issue;
  }

  /** @returns the fields that differ from the values in the form, and the required ones; an emptied one is null */
  protected readBody(request: Request, fields: readonly FieldProps[]): Unvalidated {
    const { timeZone } = getSession(request);
    const sent = readMoments(listMoments(fields), readFields(request), timeZone);
    const entries = fields.map((field) => {
      const { name, type, isList, isRequired } = field;
      const given = sent[name] ?? '';
      const text = type === 'password' ? given : given.trim();
      if (isSame(text, field) && (text === '' || !isRequired)) return [name, undefined];
      if (text === '') return [name, null];
      if (isList) return [name, splitWords(text)];
      if (type === 'moment') return [name, resolveMoment(text)];
      return [name, type === 'number' ? Number(text) : text];
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
  private renderDone(done: string | undefined, count?: string): VNode | null {
    const { actions, partActions = {}, noun, bulk } = this.type;
    if (bulk && done === bulk.name && /^\d{1,3}$/.test(count ?? ''))
      return (
        <p role="status">
          Done: {countNouns(Number(count), noun)} {bulk.done}.
        </p>
      );
    const titles = Object.entries(actions).map(([name, { title }]) => [name, title] as const);
    const action = new Map([...titles, ...Object.entries(partActions)]).get(done ?? '');
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
