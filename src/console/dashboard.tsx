/** The first page: the health of this service, what needs a person, and the refusals of the last hour. */
import { Get, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import type { KeyResponse } from '../api/admin/key.dto.js';
import { COUNTED_EVENTS } from '../domain/audit/counted-refusals.js';
import { EXPIRY_NOTICE_DAYS } from '../foundation/config/limits.js';
import { ComparedClock } from '../foundation/database/compared-clock.js';
import { Database } from '../foundation/database/database.js';
import { ThrottleWindows } from '../foundation/throttling/throttle-windows.js';
import { RevocationLease } from '../../packages/lease/src/lease.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, getSession, type Fields } from './console-requests.js';
import { mapCredentialTypes, type CredentialType } from './credential-types.js';
import { Overlap } from './credential-pages.js';
import { describeCount, readEvents, SubjectLink } from './audit.js';
import { Ago, Facts, Moment, Page, sendPage, Table, toAddress, type Cells } from './view.js';

const DAY_MS = 86_400_000;
const LONG_UNUSED_DAYS = 90;
/** The number of items of each type; a link leads to all of them. */
const SHOWN = 5;

interface Need {
  readonly title: string;
  /** The filter of the list that has all items. */
  readonly filter: Fields;
  readonly describe: (item: KeyResponse) => ComponentChildren;
}

function listNeeds(now: number): Need[] {
  const toMoment = (days: number): string => new Date(now + days * DAY_MS).toISOString();
  return [
    {
      title: `Expires within ${EXPIRY_NOTICE_DAYS} days`,
      filter: { expires_before: toMoment(EXPIRY_NOTICE_DAYS) },
      describe: ({ expires_at }) => <Moment at={expires_at} />,
    },
    { title: 'Two keys', filter: { in_overlap: 'true' }, describe: (item) => <Overlap of={item} /> },
    {
      title: `Not used for ${LONG_UNUSED_DAYS} days`,
      filter: { unused_since: toMoment(-LONG_UNUSED_DAYS) },
      describe: ({ last_used_at }) => ['last used: ', <Ago at={last_used_at} />],
    },
  ];
}

@ConsolePages('console')
export class DashboardPage {
  constructor(
    private readonly api: AdminApi,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly lease: RevocationLease,
    private readonly throttles: ThrottleWindows,
  ) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response): Promise<void> {
    const [needs, refusals, work] = await Promise.all([
      this.renderNeeds(request),
      this.renderRefusals(request),
      this.renderWork(request),
    ]);
    sendPage(
      response,
      <Page title="Dashboard" session={getSession(request)} at="/console" needs={['read']} isLive>
        {needs}
        {refusals}
        <h2>Health of the replica that answered</h2>
        {this.renderHealth()}
        {work}
      </Page>,
    );
  }

  private async renderNeeds(request: Request): Promise<VNode> {
    const needs = await Promise.all(mapCredentialTypes((type) => this.listNeedsOf(request, type)));
    return <Table caption="What needs a person" head={['What', 'Which', 'Since or until']} rows={needs.flat()} />;
  }

  private async listNeedsOf<Row extends KeyResponse, Issued extends Row>(
    request: Request,
    { address, noun, scope, routes, toId, toName }: CredentialType<Row, Issued>,
  ): Promise<Cells[]> {
    const { list } = routes(this.api.bindTo(request));
    if (!list.isAllowed) {
      const advice = `The scope ${scope} shows them; an operator with operators grants it.`;
      return [[`The ${noun}s`, 'are not shown', advice]];
    }
    const rows: Cells[] = [];
    for (const { title, filter, describe } of listNeeds(Date.now())) {
      const whole = { ...filter, live: 'true' };
      const page = await list({ ...whole, limit: String(SHOWN) });
      for (const item of page.items)
        rows.push([
          title,
          <a href={`${address}/${toId(item)}`}>
            <bdi>{toName(item)}</bdi>
          </a>,
          describe(item),
        ]);
      if (page.next_cursor !== null) rows.push([title, <a href={toAddress(address, whole)}>All such {noun}s</a>, '']);
    }
    return rows;
  }

  private async renderRefusals(request: Request): Promise<VNode> {
    const since = new Date(Date.now() - DAY_MS / 24).toISOString();
    const rows: Cells[] = [];
    for (const event of COUNTED_EVENTS) {
      const events = await readEvents(this.api, request, { event, since }, SHOWN);
      if (!events) return <p>What was refused in the last hour is shown to an operator with the scope read.</p>;
      for (const refused of events) {
        const { time, address, subject } = refused;
        rows.push([
          <a href={toAddress('/console/audit-events', { event, since })}>{event}</a>,
          describeCount(refused),
          address && <a href={toAddress('/console/explain', { about: address })}>{address}</a>,
          <SubjectLink subject={subject} />,
          <Ago at={time} />,
        ]);
      }
    }
    const exhausted = await this.throttles.countExhausted();
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
      const value = <span class={is_overdue ? 'bad' : ''}>{seconds} s</span>;
      return [name.replace(/_seconds$/, '').replaceAll('_', ' '), value] as const;
    });
    return (
      <>
        <h2>Work in the background, of all replicas</h2>
        <Facts facts={facts} />
      </>
    );
  }
}
