/**
 * The pages that all resources share: app credentials, nodes and operators (credential-pages.tsx), users (users.tsx), and
 * households (households.tsx). Each has a list, a form for a new one, a page with its time line, and for each action a
 * page that says what the action will do. A bulk action changes the rows that the operator chose in the list.
 */
import { Get, Param, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { isId } from '../foundation/common/ids.js';
import { ProblemException, problems, refuseField } from '../foundation/problems/problems.js';
import { toAddress } from './addresses.js';
import type { AdminApi } from './admin-api.js';
import { readEvents, Timeline } from './audit.js';
import { BulkActions } from './bulk-actions.js';
import type { Confirmations } from './confirmations.js';
import {
  getSession,
  keepForm,
  listMoments,
  readChanges,
  readFields,
  readFilters,
  refuseOutdated,
  type Fields,
} from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { Id } from './copyable.js';
import type { FieldProps, RefusedForm } from './fields.js';
import { Filters, Form, SearchForm, SearchPager } from './forms.js';
import { resolveMoments } from './moments.js';
import { Page, redirect, sendPage } from './page.js';
import { getOrder, renderResourceTable } from './resource-table.js';
import {
  toAddressOf,
  type Action,
  type Description,
  type ListRoute,
  type ResourceRoutes,
  type ResourceType,
} from './resource-types.js';
import { Facts, Pager, type Cells } from './tables.js';

interface ActionAddress {
  readonly id: string;
  readonly action: string;
}

export abstract class ResourcePages<
  Resource extends { readonly created_at: string; readonly updated_at?: string },
  Issued extends Resource,
> {
  private readonly bulk: BulkActions<Resource>;

  constructor(
    protected readonly api: AdminApi,
    protected readonly type: ResourceType<Resource, Issued>,
    protected readonly confirmations: Confirmations,
  ) {
    this.bulk = new BulkActions(api, type, confirmations);
  }

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
    const { address, title, noun, filters } = this.type;
    const session = getSession(request);
    const moments = listMoments(filters);
    const query = readFilters(request, address, moments, typed);
    if (!query) return;
    const id = query.search?.trim();
    if (id !== undefined && isId(id)) {
      redirect(response, `${address}/${id}`);
      return;
    }
    const { search, issue } = this.getRoutes(request);
    keepForm(request, (refused) => this.renderSearch(request, query, refused));
    const { items, next_cursor } = await list({ ...resolveMoments(moments, query), sort: getOrder(this.type, query) });
    const choices = this.bulk.listChoices(request, items);
    const toCells = (resource: Resource): Cells => this.toCells(resource);
    const table = await renderResourceTable(this.api.names, this.type, { query, items, choices, toCells });
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
        {this.bulk.renderChoices(request, query, choices, table)}
        {search ? (
          <SearchPager session={session} action={`${address}/search`} query={query} next={next_cursor} />
        ) : (
          <Pager address={address} query={query} next={next_cursor} />
        )}
      </>,
    );
  }

  /** Asks for confirmation of the bulk action. It changes nothing, so a reload may send it again. */
  @Post('choose')
  @ReadsOnly()
  async choose(@Req() request: Request, @Res() response: Response): Promise<void> {
    sendPage(response, await this.renderBulk(request));
  }

  private async renderBulk(request: Request, refused?: RefusedForm): Promise<VNode> {
    const { title, content } = await this.bulk.renderQuestion(request, refused);
    return this.render(request, title, content);
  }

  @Post('chosen')
  async actOnChosen(@Req() request: Request, @Res() response: Response): Promise<void> {
    keepForm(request, (refused) => this.renderBulk(request, refused));
    redirect(response, await this.bulk.perform(request));
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
    await this.getIssueRoute(request).requireScope();
    sendPage(response, await this.renderNew(request));
  }

  private async renderNew(request: Request, refused?: RefusedForm): Promise<VNode> {
    const { address, noun, submit } = this.type;
    const fields = await this.offerKnown(request, this.listNewFields());
    return this.render(
      request,
      `New ${noun}`,
      <Form session={getSession(request)} action={address} submit={submit} fields={fields} refused={refused}>
        {await this.confirmations.renderProof(request, refused)}
      </Form>,
    );
  }

  @Post()
  async create(@Req() request: Request, @Res() response: Response): Promise<void> {
    keepForm(request, (refused) => this.renderNew(request, refused));
    const issue = this.getIssueRoute(request);
    await this.confirmations.requireProof(request);
    const result = this.renderIssued(await issue(request, readChanges(request, this.listNewFields())));
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
    await this.findAction(action).route(this.api.bindTo(request)).requireScope();
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
    const seen = await this.toSeen(request, action, resource);
    const toType = asksForName ? [{ label: nameLabel, name: 'name', isRequired: true }] : [];
    const asked = [...(await this.offerKnown(request, fields?.(resource) ?? [])), ...toType];
    return this.render(
      request,
      `${title}: ${toName(resource)}`,
      <Form
        session={getSession(request)}
        action={`${address}/${id}/${action}`}
        submit={title}
        {...(seen !== undefined && { seen })}
        fields={asked}
        refused={refused}
      >
        <p role="note">
          {effect} {use}
        </p>
        {!isHarmless && (await this.confirmations.renderProof(request, refused))}
      </Form>,
      resource,
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
    refuseOutdated(request, await this.toSeen(request, action, resource));
    keepForm(request, (refused) => this.renderAction(request, { id, action }, resource, refused));
    if (asksForName && readFields(request).name !== this.type.toName(resource))
      refuseField('/name', 'does not match, so nothing was changed: type it as the title of this page shows it');
    if (!isHarmless) await this.confirmations.requireProof(request);
    const result = await this.perform(request, id, action, resource);
    const next = typeof result === 'string' ? toAddress(result, { done: action }) : result;
    this.sendResult(response, `${title}: ${this.type.toName(resource)}`, next);
  }

  /** @returns what the form of an action was shown for; undefined for a resource that is never changed, only ended */
  protected async toSeen(_request: Request, _action: string, resource: Resource): Promise<string | undefined> {
    return Promise.resolve(resource.updated_at);
  }

  /** @returns a page that is shown once, or the address of the next page */
  protected async perform(request: Request, id: string, action: string, resource: Resource): Promise<VNode | string> {
    const { route, body, fields } = this.findAction(action);
    const sent = readChanges(request, fields?.(resource) ?? []);
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
    return toAddressOf(this.type, resource);
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

  protected findAction(name: string): Action<Resource> {
    const action = Object.hasOwn(this.type.actions, name) ? this.type.actions[name] : undefined;
    if (!action) throw new ProblemException(problems.notFound);
    return action;
  }

  private sendResult(response: Response, title: string, result: VNode | string): void {
    if (typeof result === 'string') redirect(response, result);
    else this.send(response, title, result);
  }

  private send(response: Response, title: string, content: VNode): void {
    sendPage(response, this.render(response.req, title, content));
  }

  /** Says on the page that follows what was done. @param done `new`, or the name of an action, as the address has it */
  private renderDone(done: string | undefined, count?: string): VNode | null {
    const { actions, partActions = {}, noun } = this.type;
    const titles = Object.entries(actions).map(([name, { title }]) => [name, title] as const);
    const action = new Map([...titles, ...Object.entries(partActions)]).get(done ?? '');
    const text = this.bulk.describeDone(done, count) ?? action ?? (done === 'new' ? `new ${noun}` : undefined);
    return text === undefined ? null : <p role="status">Done: {text}.</p>;
  }

  /** @param resource whose page is above this one */
  protected render(request: Request, title: string, content: VNode, resource?: Resource): VNode {
    const { address, scope, toName } = this.type;
    const above = resource && [{ address: this.toAddressOf(resource), name: toName(resource) }];
    return (
      <Page title={title} session={getSession(request)} at={address} above={above} needs={[scope, 'read']}>
        {content}
      </Page>
    );
  }
}
