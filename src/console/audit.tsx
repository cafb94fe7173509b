/** The audit log: filtered in the address bar, one click from an id to its rows, and downloads of what is filtered. */
import { Get, Query, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import {
  AuditEventsAdminController,
  AuditEventsQuery,
  BackgroundWorkAdminController,
  type AuditEventResponse,
} from '../admin/audit-events.admin.controller.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, getSession, type Fields } from './console-requests.js';
import { ConsoleSessions } from './console-sessions.js';
import { describeActor, SubjectLink } from './timeline.js';
import {
  Field,
  Filters,
  Moment,
  MOMENT_HINT,
  Page,
  Pager,
  sendPage,
  setPageHeaders,
  Table,
  toAddress,
} from './view.js';

const ADDRESS = '/console/audit';
const BATCH = '100';
const FORMATS = {
  csv: { type: 'text/csv', head: 'time,event,actor,subject,address,count,request_id,details\n', toLine: toCsv },
  ndjson: {
    type: 'application/x-ndjson',
    head: '',
    toLine: (event: AuditEventResponse) => `${JSON.stringify(event)}\n`,
  },
} as const;

@ConsolePages('console')
export class AuditPages {
  constructor(
    private readonly api: AdminApi,
    private readonly sessions: ConsoleSessions,
  ) {}

  @Get('audit')
  async showEvents(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    const { items, next_cursor } = await this.readEvents(request, query);
    const work = await this.api.call(request, BackgroundWorkAdminController, 'getBackgroundWork');
    const unsealed = work.items.find(({ name }) => name === 'audit_unsealed_seconds');
    const rows = items.map((event) => [
      <Moment at={event.time} />,
      <a href={toAddress(ADDRESS, { event: event.event })}>{event.event}</a>,
      <IdLink name="actor" id={event.actor.id} text={describeActor(event)} />,
      <SubjectLink subject={event.subject} />,
      <IdLink name="address" id={event.address} text={event.address ?? ''} />,
      event.count,
      <Details event={event} />,
    ]);
    const filter = { ...query, cursor: undefined };
    sendPage(
      response,
      <Page title="Audit" session={getSession(request)} at={ADDRESS} needs={['read']}>
        <p>
          The oldest event without a seal is{' '}
          <span class={unsealed?.is_overdue ? 'bad' : 'good'}>{unsealed?.seconds} s old</span>. A seal proves that the
          events before it are unchanged: <code>platform-auth audit verify</code>.
        </p>
        <Filters action={ADDRESS}>
          <Field label="Event" name="event" value={query.event} hint="Such as user.login.failed, or user.*" />
          <Field label="About (id)" name="subject" value={query.subject} />
          <Field label="By (id, or operator:name)" name="actor" value={query.actor} />
          <Field label="Address" name="address" value={query.address} />
          <Field label="Request" name="request_id" value={query.request_id} />
          <Field label="Since" name="since" value={query.since} hint={MOMENT_HINT} />
          <Field label="Until" name="until" value={query.until} hint={MOMENT_HINT} />
        </Filters>
        <Table caption="Events" head={['Time', 'Event', 'By', 'About', 'Address', 'Count', 'Details']} rows={rows} />
        <Pager address={ADDRESS} query={query} next={next_cursor} />
        <p>
          Download what is filtered: <a href={toAddress(`${ADDRESS}.csv`, filter)}>CSV</a>,{' '}
          <a href={toAddress(`${ADDRESS}.ndjson`, filter)}>NDJSON</a>
        </p>
      </Page>,
    );
  }

  @Get('audit.csv')
  async downloadCsv(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    await this.download(request, response, query, 'csv');
  }

  @Get('audit.ndjson')
  async downloadLines(@Req() request: Request, @Res() response: Response, @Query() query: Fields): Promise<void> {
    await this.download(request, response, query, 'ndjson');
  }

  /** Page by page, and only as fast as the client reads. An error after the first page cuts the connection. */
  private async download(
    request: Request,
    response: Response,
    query: Fields,
    format: keyof typeof FORMATS,
  ): Promise<void> {
    const { type, head, toLine } = FORMATS[format];
    let page = await this.readEvents(request, { ...query, limit: BATCH });
    setPageHeaders(response);
    response.type(type).attachment(`audit.${format}`).write(head);
    for (;;) {
      const isRead = response.write(page.items.map(toLine).join(''));
      if (!isRead) await new Promise((resolve) => response.once('drain', resolve).once('close', resolve));
      if (page.next_cursor === null || response.destroyed) break;
      // The client may read slowly: until long after the operator was revoked.
      if (!(await this.sessions.findSession(getSession(request).token, true))) {
        response.destroy();
        return;
      }
      page = await this.readEvents(request, { ...query, limit: BATCH, cursor: page.next_cursor });
    }
    response.end();
  }

  private async readEvents(request: Request, query: Fields) {
    const read = await this.api.read('query', AuditEventsQuery, query);
    return this.api.call(request, AuditEventsAdminController, 'listAuditEvents', read);
  }
}

function IdLink({ name, id, text }: { name: string; id: string | null; text: string }) {
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

/** RFC 4180. A cell that a spreadsheet would take for a formula gets a quotation mark before it. */
function toCsv(event: AuditEventResponse): string {
  const { time, subject, address, count, request_id, details } = event;
  const cells = [time, event.event, describeActor(event), subject, address, count, request_id, JSON.stringify(details)];
  const texts = cells.map((cell) => String(cell ?? '').replace(/^[=+\-@\t\r]/, "'$&"));
  return `${texts.map((text) => `"${text.replaceAll('"', '""')}"`).join(',')}\n`;
}
