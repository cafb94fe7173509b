/** The first page answers whether anything is wrong: what needs a person, the last day by hour, and what was refused. */
import { Get, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import type { FindingResponse } from '../api/admin/findings.admin.controller.js';
import { COUNTED_EVENTS } from '../domain/audit/counted-refusals.js';
import type { Check } from '../domain/status/finding.js';
import { DAY_HOURS } from '../foundation/common/hourly-counters.js';
import { isId } from '../foundation/common/ids.js';
import { KEY_KINDS } from '../foundation/common/key-kinds.js';
import { EXPIRY_NOTICE_DAYS } from '../foundation/config/limits.js';
import { ComparedClock } from '../foundation/database/compared-clock.js';
import { Database } from '../foundation/database/database.js';
import { cacheQuery } from '../foundation/metrics/metrics-registry.js';
import { ThrottleWindows } from '../foundation/throttling/throttle-windows.js';
import { RevocationLease } from '../../packages/lease/src/lease.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages } from './console-pages.js';
import { getSession } from './console-requests.js';
import { Charts } from './charts.js';
import type { PageSession } from './navigation.js';
import { describeCount, readEvents, SubjectLink } from './audit.js';
import { NameLink } from './copyable.js';
import { Ago, formatDuration, Moment } from './moments.js';
import { Facts, Table, type Cells } from './tables.js';
import { Page, sendPage } from './page.js';
import { toAddress } from './addresses.js';

const [HOUR_MS, DAY_MS] = [3_600_000, 86_400_000];
/** The refusals of each event that the page shows; a link leads to all of them. */
const MAX_REFUSALS = 5;
const LONG_UNUSED_DAYS = 90;

const CHECKS: Readonly<Record<Check, string>> = {
  guesses: 'Guesses',
  clock: 'Clocks',
  seals: 'Seals of the audit log',
  backup: 'Archive of PostgreSQL',
  mail: 'Mail',
  maintenance: 'Jobs',
  silent_verifiers: 'Verifiers',
  unread_deletions: 'Unread deletions',
  unused_for_users: 'Pairs for users that are not used',
  household_without_admin: 'Households',
  old_key_used: 'Old keys in use',
  key_expires: 'Keys that expire',
};

@ConsolePages('console')
export class DashboardPage {
  private readonly countExhausted;

  constructor(
    private readonly api: AdminApi,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly lease: RevocationLease,
    throttles: ThrottleWindows,
  ) {
    // It reads the windows of a week, which takes longer than the rest of the page.
    this.countExhausted = cacheQuery(() => throttles.countExhausted());
  }

  @Get()
  async show(@Req() request: Request, @Res() response: Response): Promise<void> {
    const [findings, charts, refusals, work] = await Promise.all([
      this.renderFindings(request),
      this.renderCharts(request),
      this.renderRefusals(request),
      this.renderWork(request),
    ]);
    sendPage(
      response,
      <Page title="Dashboard" session={getSession(request)} at="/console" isLive>
        {findings}
        {charts}
        {refusals}
        <Reviews pages={getSession(request).pages} />
        <h2 id="health">Health of the replica that answered</h2>
        {this.renderHealth()}
        {work}
      </Page>,
    );
  }

  private async renderFindings(request: Request): Promise<VNode> {
    const { at, looked_at, items } = await this.api.bindTo(request).findings.listFindings(request);
    const rows = items.map(({ check, severity, subject, detail, since, until }): Cells => [
      <span class={severity === 'critical' ? 'bad' : 'warn'}>{CHECKS[check]}</span>,
      <NameLink address={toFindingAddress(check, subject)} name={subject?.name ?? 'See what is behind'} />,
      detail,
      since ? <Ago at={since} /> : until && <Moment at={until} />,
    ]);
    const looked = `Looked at: ${looked_at.map((check) => CHECKS[check]).join(', ')}`;
    if (rows.length === 0)
      return (
        <p role="note">
          <span class="good">Nothing needs a person.</span> {looked}; at <Moment at={at} />.
        </p>
      );
    return (
      <>
        <Table caption="What needs a person" head={['What', 'Who', 'Details', 'Since or until']} rows={rows} />
        <p>
          <small>
            {looked}; at <Moment at={at} />.
          </small>
        </p>
      </>
    );
  }

  private async renderCharts(request: Request): Promise<VNode | null> {
    const { listHourlyCounts } = this.api.bindTo(request).hourlyCounts;
    if (!listHourlyCounts.isAllowed) return null;
    const { items } = await listHourlyCounts({ hours: String(2 * DAY_HOURS) });
    return (
      <section>
        <h2>The last day by hour</h2>
        <p>Bars: the last 24 hours. Lines: the same hours of the day before. Today and yesterday are those of UTC.</p>
        <Charts hours={items} />
      </section>
    );
  }

  private async renderRefusals(request: Request): Promise<VNode | null> {
    const since = new Date(Date.now() - HOUR_MS).toISOString();
    const { listAuditEvents } = this.api.bindTo(request).auditEvents;
    if (!listAuditEvents.isAllowed) return null;
    const lists = await Promise.all(
      COUNTED_EVENTS.map((event) => readEvents(this.api, request, { event, since }, MAX_REFUSALS)),
    );
    const rows = lists.flatMap((events = []) =>
      events.map((refused): Cells => {
        const { event, time, address, subject } = refused;
        return [
          <a href={toAddress('/console/audit-events', { event, since })}>{event}</a>,
          describeCount(refused),
          address && <a href={toAddress('/console/explain', { about: address })}>{address}</a>,
          <SubjectLink subject={subject} />,
          <Ago at={time} />,
        ];
      }),
    );
    const exhausted = (await this.countExhausted()) ?? [];
    return (
      <>
        <Table caption="Refused in the last hour" head={['Event', 'How often', 'From', 'About', 'First']} rows={rows} />
        <p>
          Limits that refuse an account or a network now:{' '}
          {exhausted.map(({ name, count }) => `${name} (${count})`).join(', ') || 'none'}.{' '}
          <a href={toAddress('/console/users', { throttled: 'true' })}>Throttled users</a>
        </p>
      </>
    );
  }

  private renderHealth(): VNode {
    const { total, idle, limit, waiting } = this.database.pool;
    const { isWrong, skewSeconds: skew } = this.clock;
    return (
      <Facts
        facts={[
          ['Connections to PostgreSQL', `${total - idle} of ${limit} in use, ${waiting} requests wait`],
          ['Lease', this.lease.isHeld ? <span class="good">held</span> : <span class="bad">lapsed</span>],
          ['Clock', isWrong ? <span class="bad">wrong by {skew?.toFixed(0)} s</span> : <span class="good">right</span>],
        ]}
      />
    );
  }

  private async renderWork(request: Request): Promise<VNode | null> {
    const { getBackgroundWork } = this.api.bindTo(request).backgroundWork;
    if (!getBackgroundWork.isAllowed) return null;
    const { items } = await getBackgroundWork();
    const facts = items.map(({ name, seconds, is_overdue }) => {
      const value = <span class={is_overdue ? 'bad' : ''}>{formatDuration(seconds)}</span>;
      return [name.replace(/_seconds$/, '').replaceAll('_', ' '), value] as const;
    });
    return (
      <>
        <h2 id="work">Work in the background, of all replicas</h2>
        <Facts facts={facts} />
      </>
    );
  }
}

/** @returns the address of the page on which an operator resolves the finding */
function toFindingAddress(check: Check, subject: FindingResponse['subject']): string {
  if (subject === null) return check === 'guesses' ? toAddress('/console/audit-events', { event: 'user.*' }) : '#work';
  const { type, id } = subject;
  if (type === 'host') return '#health';
  if (type === 'address') return toAddress('/console/explain', { about: id });
  if (type === 'service') return toAddress('/console/map', { service: id });
  if (type === 'household') return `/console/households/${id}`;
  if (type === 'user') return isId(id) ? `/console/users/${id}` : toAddress('/console/audit-events', { subject: id });
  const address = `/console${KEY_KINDS[type].path}`;
  if (id !== '') return `${address}/${id}`;
  const expires_before = toMoment(Date.now() + EXPIRY_NOTICE_DAYS * DAY_MS);
  return toAddress(address, {
    ...(check === 'old_key_used' ? { in_overlap: 'true' } : { expires_before }),
    live: 'true',
  });
}

const toMoment = (ms: number): string => new Date(ms).toISOString();

/** Links to lists for a periodic review. The page does not show the lists, because they read whole tables. */
function Reviews({ pages }: Pick<PageSession, 'pages'>): VNode | null {
  const kinds = Object.values(KEY_KINDS).filter(({ path }) =>
    pages.some(({ address }) => address === `/console${path}`),
  );
  const unused_since = toMoment(Date.now() - LONG_UNUSED_DAYS * DAY_MS);
  const rows = kinds.map(({ title, path }): Cells => [
    title,
    <a href={toAddress(`/console${path}`, { in_overlap: 'true', live: 'true' })}>two keys</a>,
    <a href={toAddress(`/console${path}`, { unused_since, live: 'true' })}>not used for {LONG_UNUSED_DAYS} days</a>,
  ]);
  if (rows.length === 0) return null;
  return <Table caption="To review" head={['Keys', 'Rotations under way', 'Unused']} rows={rows} />;
}
