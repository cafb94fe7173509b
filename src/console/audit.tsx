/**
 * The audit log: its filter stands in the address, a click on an id shows its rows, and what is filtered can be
 * downloaded. Other pages take their time lines from here.
 */
import { pipeline } from 'node:stream/promises';
import { Get, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import type { AuditEventResponse, AuditEventsAdminController } from '../api/admin/audit-events.admin.controller.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages } from './console-pages.js';
import { getSession, keepForm, readFilters, type Fields } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { Ago, formatDuration, Moment, PAST, resolveMoments } from './moments.js';
import { Filters } from './forms.js';
import { Id, Named } from './copyable.js';
import { Page, sendPage, setPageHeaders } from './page.js';
import { Pager, Table, type Cells } from './tables.js';
import { toAddress } from './addresses.js';
import type { FieldProps } from './fields.js';

const ADDRESS = '/console/audit-events';
const FILTERS = [
  { label: 'Event', name: 'event', hint: 'Such as user.login.failed, or user.*' },
  { label: 'About (id)', name: 'subject' },
  { label: 'By (id, or operator:name)', name: 'actor' },
  { label: 'Address', name: 'address' },
  { label: 'Request', name: 'request_id' },
  { label: 'Since', name: 'since', type: 'moment', options: PAST },
  { label: 'Until', name: 'until', type: 'moment', options: PAST },
] as const satisfies readonly FieldProps[];
const MOMENTS = ['since', 'until'];
const BATCH = '100';
const FORMATS = {
  csv: { type: 'text/csv', head: 'time,event,actor,subject,address,count,request_id,details\n', toLine: toCsv },
  ndjson: {
    type: 'application/x-ndjson',
    head: '',
    toLine: (event: AuditEventResponse) => `${JSON.stringify(event)}\n`,
  },
} as const;
type Format = keyof typeof FORMATS;
type Events = Awaited<ReturnType<AuditEventsAdminController['listAuditEvents']>>;

@ConsolePages('console')
export class AuditPages {
  constructor(
    private readonly api: AdminApi,
    private readonly sessions: ConsoleSessions,
  ) {}

  @Get('audit-events')
  async showEvents(@Req() request: Request, @Res() response: Response, @Query() typed: Fields): Promise<void> {
    const query = readFilters(request, ADDRESS, MOMENTS, typed);
    if (!query) return;
    const { auditEvents, backgroundWork } = this.api.bindTo(request);
    keepForm(request, (refused) => (
      <Page title="Audit events" session={getSession(request)} at={ADDRESS} needs={['read']}>
        <Filters action={ADDRESS} fields={FILTERS} query={query} refused={refused} />
      </Page>
    ));
    const page = await auditEvents.listAuditEvents(resolveMoments(MOMENTS, query));
    const { next_cursor } = page;
    const items = await nameEvents(this.api, page.items);
    const work = await backgroundWork.getBackgroundWork();
    const unsealed = work.items.find(({ name }) => name === 'audit_unsealed_seconds');
    const filter = { ...query, cursor: undefined };
    sendPage(
      response,
      <Page title="Audit events" session={getSession(request)} at={ADDRESS} needs={['read']}>
        <p>
          The oldest event without a seal is{' '}
          <span class={unsealed?.is_overdue ? 'bad' : 'good'}>{formatDuration(unsealed?.seconds ?? 0)} old</span>. A
          seal proves that the events before it are unchanged: <code>platform-auth audit verify</code>.
        </p>
        <Filters action={ADDRESS} fields={FILTERS} query={query} />
        <Table
          caption="Events"
          head={['Time', 'Event', 'By', 'About', 'Address', 'Count', 'Details']}
          rows={items.map(toCells)}
        />
        <Pager address={ADDRESS} query={query} next={next_cursor} />
        <p>
          Download what is filtered: <a href={toAddress(`${ADDRESS}.csv`, filter)}>CSV</a>,{' '}
          <a href={toAddress(`${ADDRESS}.ndjson`, filter)}>NDJSON</a>
        </p>
      </Page>,
    );
  }

  @Get('audit-events.csv')
  async downloadCsv(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    await this.download(request, response, query, 'csv');
  }

  @Get('audit-events.ndjson')
  async downloadLines(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    await this.download(request, response, query, 'ndjson');
  }

  /** Reads page by page, and only as fast as the client reads. An error after the first page cuts the connection. */
  private async download(request: Request, response: Response, asked: Fields, format: Format): Promise<void> {
    // Once, because a slow download would lose events at its end if each page read -24h anew.
    const query = resolveMoments(MOMENTS, asked);
    const first = await this.readBatch(request, query);
    setPageHeaders(response);
    response.type(FORMATS[format].type).attachment(`audit.${format}`);
    try {
      await pipeline(this.readLines(request, query, first, format), response);
    } catch (error) {
      // The client has disconnected, or the session has ended.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_STREAM_PREMATURE_CLOSE') throw error;
    }
  }

  private async *readLines(request: Request, query: Fields, first: Events, format: Format): AsyncGenerator<string> {
    const { head, toLine } = FORMATS[format];
    let page = first;
    yield head + page.items.map(toLine).join('');
    while (page.next_cursor !== null) {
      // Checked for each page, because a slow client may still read after the operator was revoked or lost the scope.
      const session = await this.sessions.findSession(getSession(request).token, true);
      if (!session) {
        request.res?.destroy();
        return;
      }
      request.user = session.principal;
      page = await this.readBatch(request, { ...query, cursor: page.next_cursor });
      yield page.items.map(toLine).join('');
    }
  }

  private async readBatch(request: Request, query: Fields): Promise<Events> {
    return this.api.bindTo(request).auditEvents.listAuditEvents({ ...query, limit: BATCH });
  }
}

function toCells(event: NamedEvent): Cells {
  return [
    <Moment at={event.time} />,
    <a href={toAddress(ADDRESS, { event: event.event })}>{event.event}</a>,
    <IdLink name="actor" id={event.actor.id} text={describeActor(event)} />,
    <SubjectLink subject={event.subject} name={event.subjectName} />,
    listAddresses(event).map((address) => [<IdLink name="address" id={address} />, ' ']),
    event.count,
    <Details event={event} />,
  ];
}

function IdLink({ name, id, text = id }: { name: string; id: string | null; text?: string | null }) {
  return id === null ? <>{text}</> : <a href={toAddress(ADDRESS, { [name]: id })}>{text}</a>;
}

function Details({ event: { details, request_id } }: { event: AuditEventResponse }) {
  return (
    <details>
      <summary>Show</summary>
      <pre>
        <code>{JSON.stringify({ request_id, ...details }, null, 1)}</code>
      </pre>
    </details>
  );
}

/** RFC 4180. A cell that a spreadsheet would take for a formula is prefixed, so that it stays text. */
function toCsv(event: AuditEventResponse): string {
  const { time, subject, address, count, request_id, details } = event;
  const cells = [time, event.event, describeActor(event), subject, address, count, request_id, JSON.stringify(details)];
  const texts = cells.map((cell) => String(cell ?? '').replace(/^[=+\-@\t\r]/, "'$&"));
  return `${texts.map((text) => `"${text.replaceAll('"', '""')}"`).join(',')}\n`;
}

/** @returns the newest audit events that a filter accepts; undefined when the operator may not read the audit log */
export async function readEvents(
  api: AdminApi,
  request: Request,
  filter: Fields,
  limit = 20,
): Promise<NamedEvent[] | undefined> {
  const { listAuditEvents } = api.bindTo(request).auditEvents;
  if (!listAuditEvents.isAllowed) return undefined;
  return nameEvents(api, (await listAuditEvents({ ...filter, limit: String(limit) })).items);
}

/** An event with the names that its ids have now. */
interface NamedEvent extends AuditEventResponse {
  readonly subjectName: string | undefined;
  /** The user whom an act about a household concerns. */
  readonly concerned: { readonly id: string; readonly name: string | undefined } | undefined;
}

function readConcerned({ event, details: { user_id } }: AuditEventResponse): string | undefined {
  return event.startsWith('household.') && typeof user_id === 'string' ? user_id : undefined;
}

async function nameEvents(api: AdminApi, events: readonly AuditEventResponse[]): Promise<NamedEvent[]> {
  const names = await api.names.findNames(
    events.flatMap((event) => [event.subject, event.actor.id, readConcerned(event) ?? null]),
  );
  return events.map((event) => {
    const { actor, subject } = event;
    const name = actor.name ?? names.get(actor.id ?? '') ?? null;
    const user = readConcerned(event);
    const concerned = user === undefined ? undefined : { id: user, name: names.get(user) };
    return { ...event, actor: { ...actor, name }, subjectName: names.get(subject ?? ''), concerned };
  });
}

interface TimelineProps {
  readonly events: readonly NamedEvent[] | undefined;
  /** Selects the events of the time line in the audit log. */
  readonly filter: Fields;
  readonly title?: string;
}

export function Timeline({ events, filter, title = 'Time line' }: TimelineProps): VNode {
  const counted = filter.request_id;
  return (
    <section>
      <h2>{title}</h2>
      {events === undefined && <p>The audit log needs the scope read.</p>}
      {events?.length === 0 && <p>The audit log has no such event.</p>}
      <ol class="timeline">
        {events?.map((event) => (
          <li>
            <Ago at={event.time} /> · <b>{event.event}</b> {describeCount(event)} by {describeActor(event)}
            {event.concerned && (
              <>
                {' about '}
                <Named {...event.concerned} address={`/console/users/${event.concerned.id}`} />
              </>
            )}
            {event.address !== null && ` from ${listAddresses(event).join(', ')}`}
            {counted !== undefined && event.request_id !== counted && ` (request ${counted} is one of them)`}
          </li>
        ))}
      </ol>
      {events && (
        <p>
          <a href={toAddress(ADDRESS, filter)}>In the audit log</a>
        </p>
      )}
    </section>
  );
}

export function SubjectLink({
  subject,
  name,
}: Partial<Pick<NamedEvent, 'subject'> & { name: string | undefined }>): VNode {
  if (subject == null) return <></>;
  if (name === undefined) return <IdLink name="subject" id={subject} />;
  return (
    <>
      <IdLink name="subject" id={subject} text={name} /> <Id id={subject} />
    </>
  );
}

/** Says how often a counted event happened, and a refusal for which reasons. */
export function describeCount({ count, details }: AuditEventResponse): string {
  const reasons = Object.keys(details.reasons ?? {}).join(', ');
  if (reasons !== '') return `${count} × ${reasons}`;
  return count > 1 ? `${count} ×` : '';
}

/** @returns the most frequent addresses of a counted refusal, or that of another event */
function listAddresses({ address, details }: AuditEventResponse): readonly string[] {
  return (details.addresses as string[] | undefined) ?? (address === null ? [] : [address]);
}

function describeActor({ actor }: Pick<AuditEventResponse, 'actor'>): string {
  return actor.name ?? (actor.id === null ? actor.door : `${actor.door} ${actor.id}`);
}
