/** Who calls whom: a drawing (map-drawing.tsx), the same as a table, and an answer for one pair of services. */
import { Get, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import type { AppCredentialResponse } from '../api/admin/app-credentials.admin.controller.js';
import type { EventSubscriptionResponse } from '../api/admin/event-subscriptions.admin.controller.js';
import { DESCENDING } from '../foundation/http/page.dto.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages } from './console-pages.js';
import { getSession, keepForm, type Fields } from './console-requests.js';
import { State } from './credential-pages.js';
import { readEvents } from './audit.js';
import { MAP_ADDRESS, Drawing, toServiceAddress, type MapArrow } from './map-drawing.js';
import { Ago } from './moments.js';
import { showValue } from './properties.js';
import { Filters } from './forms.js';
import { Page, sendPage } from './page.js';
import { Pager, Table } from './tables.js';
import { toAddress } from './addresses.js';
import type { FieldProps, RefusedForm } from './fields.js';

/** More arrows are not readable and take long to lay out, so the page asks for a service. */
const MAX_ARROWS = 100;
const HOUR_MS = 3_600_000;
@ConsolePages('console/map')
export class MapPage {
  constructor(private readonly api: AdminApi) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { services } = await this.api.findSuggestions(request);
    const renderForms = (refused?: RefusedForm): VNode => <Forms query={query} known={services} refused={refused} />;
    keepForm(request, (refused) => this.render(request, renderForms(refused)));
    const isAsked = Boolean(query.caller && query.target);
    const pair = isAsked ? await this.findNewest(request, query) : undefined;
    const { arrows, next } = await this.readArrows(request, query, await this.listRefused(request));
    const subscription = await this.findSubscription(request, query.service);
    const content = (
      <>
        {renderForms()}
        {isAsked && <Answer query={query} credential={pair} />}
        {next !== null && (
          <p role="note">
            {query.service ? (
              <>
                There are more arrows than these: see the keys{' '}
                <a href={toAddress('/console/app-credentials', { caller: query.service })}>that it uses</a> and{' '}
                <a href={toAddress('/console/app-credentials', { target: query.service })}>
                  that others use to call it
                </a>
                .
              </>
            ) : (
              `There are more than ${MAX_ARROWS} arrows. Choose a service, here or in the table.`
            )}
          </p>
        )}
        {subscription && <Reading subscription={subscription} />}
        {(query.service || (next === null && !query.cursor)) && <Drawing arrows={arrows} query={query} />}
        <ArrowTable arrows={arrows} query={query} />
        {!query.service && <Pager address={MAP_ADDRESS} query={query} next={next} />}
      </>
    );
    sendPage(response, this.render(request, content));
  }

  private render(request: Request, content: VNode): VNode {
    return (
      <Page title="Map" session={getSession(request)} at={MAP_ADDRESS} needs={['apps', 'read']}>
        {content}
      </Page>
    );
  }

  /** @returns the live credential of a pair; without one the latest */
  private async findNewest(request: Request, { caller, target }: Fields): Promise<AppCredentialResponse | undefined> {
    const { listAppCredentials } = this.api.bindTo(request).appCredentials;
    const [live, latest] = await Promise.all([
      listAppCredentials({ caller, target, live: 'true', limit: '1' }),
      listAppCredentials({ caller, target, sort: `created_at${DESCENDING}`, limit: '1' }),
    ]);
    return live.items[0] ?? latest.items[0];
  }

  private async findSubscription(request: Request, service = ''): Promise<EventSubscriptionResponse | undefined> {
    if (service === '') return undefined;
    const { items } = await this.api.bindTo(request).eventSubscriptions.listEventSubscriptions();
    return items.find((each) => each.service === service);
  }

  /** @returns the ids of the credentials that were refused in the last hour */
  private async listRefused(request: Request): Promise<Set<string | null>> {
    const since = new Date(Date.now() - HOUR_MS).toISOString();
    const events = await readEvents(this.api, request, { event: 'app.validation.failed', since }, MAX_ARROWS);
    return new Set(events?.map(({ subject }) => subject));
  }

  /** @returns the credentials that a service uses, and those with which others call it */
  private async readArrows(
    request: Request,
    { service, revoked, cursor }: Fields,
    refused: ReadonlySet<string | null>,
  ) {
    const sides = service ? [{ caller: service }, { target: service }] : [{ cursor }];
    const arrows = new Map<string, MapArrow>();
    let next: string | null = null;
    for (const side of sides) {
      const filter = { ...side, live: revoked ? undefined : 'true', limit: String(MAX_ARROWS / sides.length) };
      const page = await this.api.bindTo(request).appCredentials.listAppCredentials(filter);
      for (const item of page.items) arrows.set(item.app_id, { ...item, isRefused: refused.has(item.app_id) });
      next ??= page.next_cursor;
    }
    return { arrows: [...arrows.values()], next };
  }
}

function Reading({ subscription }: { readonly subscription: EventSubscriptionResponse }): VNode {
  const { types, unread, unread_deletions, oldest_unread } = subscription;
  return (
    <p role="note">
      It reads events: {types.join(', ')}.{' '}
      {oldest_unread ? (
        <>
          It has not read {unread}, of which {unread_deletions} are deletions of users; the oldest is{' '}
          {oldest_unread.type}, <Ago at={oldest_unread.time} />.
        </>
      ) : (
        'It has read all of them.'
      )}
    </p>
  );
}

interface FormsProps {
  readonly query: Fields;
  /** The services that live keys name. */
  readonly known: readonly string[];
  readonly refused?: RefusedForm | undefined;
}

/** Of both forms the refused one, whose field says what is wrong, is shown with it. */
function Forms({ query, known, refused }: FormsProps): VNode {
  const filters: FieldProps[] = [
    { label: 'Only a service and its neighbours', name: 'service', known },
    { label: 'Revoked keys', name: 'revoked', options: { '': 'not shown', true: 'shown too' } },
  ];
  const question: FieldProps[] = [
    { label: 'May this caller', name: 'caller', isRequired: true, known },
    { label: 'call this target?', name: 'target', isRequired: true, known },
  ];
  const isQuestion = Boolean(query.caller && query.target);
  // The API names the parameter of its own, which is the caller or the target of a credential for both forms.
  const ofService = refused && { ...refused, errors: { service: refused.errors.caller ?? refused.errors.service } };
  return (
    <>
      <Filters action={MAP_ADDRESS} fields={filters} query={query} refused={isQuestion ? undefined : ofService} />
      <Filters
        action={MAP_ADDRESS}
        fields={question}
        query={query}
        refused={isQuestion ? refused : undefined}
        submit="Ask"
      />
    </>
  );
}

/** @param credential the latest of the pair */
function Answer({ query, credential }: { query: Fields; credential: AppCredentialResponse | undefined }): VNode {
  const pair = (
    <>
      <bdi>{query.caller}</bdi> may {isLive(credential) ? '' : 'not '}call <bdi>{query.target}</bdi>
    </>
  );
  if (!credential) return <p role="status">No: {pair}. There was never a key for this pair.</p>;
  const { app_id, created_at, revoked_at, expires_at, last_used_at, scopes, for_users } = credential;
  const key = <a href={`/console/app-credentials/${app_id}`}>the key {app_id}</a>;
  if (!isLive(credential))
    return (
      <p role="status">
        No: {pair}. Its latest key, {key}, {revoked_at === null ? 'expired' : 'was revoked'}{' '}
        <Ago at={revoked_at ?? expires_at} />.
      </p>
    );
  return (
    <p role="status">
      Yes: {pair} since <Ago at={created_at} />, with{' '}
      {scopes === null ? 'all scopes' : `the scopes ${showValue(scopes)}`}, by {key}, which{' '}
      {expires_at === null ? (
        'does not expire'
      ) : (
        <>
          expires <Ago at={expires_at} />
        </>
      )}{' '}
      and was last used <Ago at={last_used_at} />.{for_users && ' It may act for users there.'}
    </p>
  );
}

function isLive(credential: AppCredentialResponse | undefined): boolean {
  if (!credential || credential.revoked_at !== null) return false;
  return credential.expires_at === null || Date.parse(credential.expires_at) > Date.now();
}

function ArrowTable({ arrows, query }: { arrows: readonly MapArrow[]; query: Fields }): VNode {
  const rows = arrows.map((arrow) => [
    <a href={toServiceAddress(arrow.caller, query)}>{arrow.caller}</a>,
    <a href={toServiceAddress(arrow.target, query)}>{arrow.target}</a>,
    <>
      <State of={arrow} /> {arrow.isRefused && <span class="bad">refused in the last hour</span>}
    </>,
    arrow.for_users ? 'yes' : 'no',
    <Ago at={arrow.last_used_at} />,
    <a href={`/console/app-credentials/${arrow.app_id}`}>
      Key of {arrow.caller} for {arrow.target}
    </a>,
  ]);
  return (
    <Table
      caption="The map as a table"
      head={['Caller', 'Target', 'State', 'For users', 'Last used', 'Key']}
      rows={rows}
    />
  );
}
