/** Why was it refused? Answers with the explanations of the operators' API and the events of the audit log. */
import { Get, Post, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import { isIP } from 'node:net';
import type { VNode } from 'preact';
import type { LoginReasonResponse } from '../api/admin/explanations.admin.controller.js';
import type { ExplanationResponse, ReasonResponse } from '../api/admin/key-explanation.dto.js';
import { MAX_REQUEST_IDS } from '../domain/audit/counted-refusals.js';
import { isId } from '../foundation/common/ids.js';
import { redactSecrets } from '../foundation/common/redaction.js';
import { SERVICE_NAME_FORMAT } from '../foundation/common/names.js';
import { AdminApi, type AdminRoutes } from './admin-api.js';
import { ConsolePages } from './console-pages.js';
import { ConsoleRefusalError, getSession, readFields, type Fields } from './console-requests.js';
import { ReadsOnly } from './console.guard.js';
import { mapCredentialTypes } from './credential-types.js';
import { readEvents, Timeline } from './audit.js';
import type { FieldProps } from './fields.js';
import { Moment } from './moments.js';
import { Form } from './forms.js';
import { Page, redirect, sendPage } from './page.js';
import { Table } from './tables.js';
import { toAddress } from './addresses.js';

const ADDRESS = '/console/explain';
const ABOUT = {
  label: 'An id, an e-mail address, or an address of a network',
  name: 'about',
  isRequired: true,
  hint: "The id of a node, app credential, user or request. Of a node's key: what stands before the colon.",
};
const ABOUT_ID = {
  ...ABOUT,
  label: 'An id',
  hint: "The id of a node, app credential or request. Of a node's key: what stands before the colon.",
};
const SERVICE = { label: 'Service that refused it (of a key)', name: 'service' };
const CLIENT = { label: 'Address of the client (of a login)', name: 'address' };
/** In X-API-Key, the node's id stands before the key. */
const ID_BEFORE_KEY = /^([0-9a-f-]{36}):/i;

@ConsolePages('console/explain')
export class DiagnosisPage {
  constructor(private readonly api: AdminApi) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response, @Query() { about, ...asked }: Fields): Promise<void> {
    if (about !== undefined || asked.service || asked.address) refuseKeys(about?.trim() ?? '', asked);
    const found = about === undefined ? undefined : await this.explain(request, about.trim(), asked);
    this.send(request, response, { about, ...asked }, found);
  }

  private send(request: Request, response: Response, asked: Fields, found: VNode | undefined): void {
    const fields = listFields(this.api.bindTo(request)).map((field) => ({ ...field, value: asked[field.name] }));
    sendPage(
      response,
      <Page title="Explain" session={getSession(request)} at={ADDRESS} needs={['read', 'nodes', 'apps', 'users']}>
        <Form session={getSession(request)} action={ADDRESS} submit="Explain" fields={fields} />
        {found}
      </Page>,
    );
  }

  /** A form, so that neither an e-mail address nor a key that is pasted by mistake stands in an address. */
  @Post()
  @ReadsOnly()
  async ask(@Req() request: Request, @Res() response: Response): Promise<void> {
    const { about = '', address, service } = readFields(request);
    const given = about.trim();
    const isEmail = given.includes('@') && !given.includes(':');
    const id = isEmail ? await this.findUserId(request, given) : (ID_BEFORE_KEY.exec(given)?.[1] ?? given);
    if (id === undefined) {
      this.send(
        request,
        response,
        { about: given, address, service },
        <p role="note">No user has this e-mail address.</p>,
      );
      return;
    }
    refuseKeys(id, { address, service });
    redirect(response, toAddress(ADDRESS, { about: id, address, service }));
  }

  private async explain(request: Request, about: string, asked: Fields): Promise<VNode> {
    if (isIP(about) !== 0) return this.explainNetwork(request, about);
    return this.explainId(request, about, asked);
  }

  private async findUserId(request: Request, email: string): Promise<string | undefined> {
    const [user] = (await this.api.bindTo(request).users.searchUsers({ email })).items;
    return user?.id;
  }

  private async explainNetwork(request: Request, address: string): Promise<VNode> {
    const asked = { address };
    const { network, limits } = await this.api.bindTo(request).explanations.explainNetwork(asked);
    const rows = limits.map(({ name, until }) => [<code>{name}</code>, <Moment at={until} />]);
    return (
      <>
        <h2>
          {network} is {limits.length === 0 ? 'not throttled' : 'throttled'} now
        </h2>
        <Table caption="Exhausted limits, which end by themselves" head={['Limit', 'Until']} rows={rows} />
        {await this.renderEvents(request, 'Events from this address, of the last day', {
          address,
          since: computeDayAgo(),
        })}
      </>
    );
  }

  private async explainId(request: Request, id: string, { address, service }: Fields): Promise<VNode> {
    const routes = this.api.bindTo(request);
    const ofKeys = mapCredentialTypes(({ noun, address: page, explain }) => {
      const route = explain?.(routes);
      return route ? [{ name: noun, page, route, ask: () => route(id, { target: service }) }] : [];
    });
    const { explainUser } = routes.explanations;
    const kinds = [
      ...ofKeys.flat(),
      { name: 'user', page: '/console/users', route: explainUser, ask: () => explainUser(id, { address }) },
    ];
    const events = await this.renderEvents(request, 'Events about it', { subject: id });
    const mayExplain = kinds.filter(({ route }) => route.isAllowed);
    // Without any of the scopes, the first call answers with the refusal of its route.
    const explained = mayExplain.length > 0 ? mayExplain : kinds;
    for (const { name, page, ask } of explained) {
      const answer = await ask();
      if (answer.reasons.some(({ code }) => code === 'unknown')) continue;
      return (
        <>
          <Answer name={name} page={`${page}/${id}`} answer={answer} />
          {events}
        </>
      );
    }
    const ofRequest = { request_id: id, since: computeDayAgo() };
    const mayRead = this.api.bindTo(request).auditEvents.listAuditEvents.isAllowed;
    return (
      <>
        <p role="note">
          No {explained.map(({ name }) => name).join(' or ')} has this id.
          {explained.length < kinds.length && ' What else it may be needs the scope read.'}
        </p>
        {events}
        {await this.renderEvents(request, 'Events of this request, of the last day', ofRequest)}
        {mayRead && (
          <p>
            Equal refusals of 15 minutes are counted as one event, which knows its first request and the last{' '}
            {MAX_REQUEST_IDS}. Others are in the log of the service only.
          </p>
        )}
      </>
    );
  }

  private async renderEvents(request: Request, title: string, filter: Fields): Promise<VNode> {
    return <Timeline events={await readEvents(this.api, request, filter)} filter={filter} title={title} />;
  }
}

/** Bounds the search, because no index of the audit log serves addresses and requests. */
function computeDayAgo(): string {
  return new Date(Date.now() - 86_400_000).toISOString();
}

/** An address is kept by browsers and proxies, so a key or a code must not stand in it. */
function refuseKeys(about: string, { address = '', service = '' }: Fields): void {
  const isHarmless =
    (isId(about) || isIP(about) !== 0) &&
    (address === '' || isIP(address) !== 0) &&
    (service === '' || (SERVICE_NAME_FORMAT.isName(service) && redactSecrets(service) === service));
  if (isHarmless) return;
  const advice =
    'It takes an id, an e-mail address or an address of a network, and the name of a service: no key and no code. If others can ' +
    'have seen a key, revoke it.';
  throw new ConsoleRefusalError(400, 'Neither an id nor an e-mail address', advice);
}

/** @returns the fields that the scopes of the operator can answer */
function listFields(routes: AdminRoutes): FieldProps[] {
  const mayExplainKeys = mapCredentialTypes(({ explain }) => explain?.(routes).isAllowed);
  const mayExplainUsers = routes.explanations.explainUser.isAllowed;
  return [
    mayExplainUsers ? ABOUT : ABOUT_ID,
    ...(mayExplainKeys.includes(true) ? [SERVICE] : []),
    ...(mayExplainUsers ? [CLIENT] : []),
  ];
}

interface AnswerProps {
  readonly name: string;
  readonly page: string;
  readonly answer: Pick<ExplanationResponse, 'accepted_now'> & {
    readonly reasons: readonly (Pick<ReasonResponse, 'code' | 'detail'> &
      Partial<ReasonResponse & Pick<LoginReasonResponse, 'until' | 'address'>>)[];
  };
}

function Answer({ name, page, answer }: AnswerProps): VNode {
  const isOfUser = answer.reasons.some(({ address }) => address !== undefined);
  const rows = answer.reasons.map(({ code, detail, since, actor, until, address }) => [
    <code>{code}</code>,
    detail,
    ...(isOfUser
      ? [address ?? 'any address', until ? <Moment at={until} /> : '']
      : [since ? <Moment at={since} /> : '', actor ?? '']),
  ]);
  const head = isOfUser ? ['From', 'Until'] : ['Since', 'By'];
  return (
    <section>
      <h2>
        The <a href={page}>{name}</a> {answer.accepted_now ? 'would be accepted now' : 'would be refused now'}
      </h2>
      <Table caption="Reasons" head={['Reason', 'What to do', ...head]} rows={rows} />
    </section>
  );
}
