/** The first page: the health of this service, what needs a person, and the refusals of the last hour. */
import { Get, Req, Res } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { VNode } from 'preact';
import { AuditEventsQuery } from '../admin/audit-events.admin.controller.js';
import type { BackgroundWorkResponse } from '../admin/background-work.admin.controller.js';
import type { KeyCountsResponse } from '../admin/key.dto.js';
import { UsersQuery } from '../admin/users.admin.controller.js';
import { COUNTED_EVENTS, type CountedEvent } from '../audit/counted-refusals.js';
import { EXPIRY_NOTICE_DAYS, UNUSED_DAYS } from '../config/limits.js';
import { ComparedClock } from '../database/compared-clock.js';
import { Database } from '../database/database.js';
import { RevocationLease } from '../../packages/lease/src/lease.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, getSession } from './console-requests.js';
import { Facts, Page, Row, sendPage, Table, toAddress } from './view.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const BATCH = '100';

@ConsolePages('console')
export class NowPage {
  constructor(
    private readonly api: AdminApi,
    private readonly database: Database,
    private readonly clock: ComparedClock,
    private readonly lease: RevocationLease,
  ) {}

  @Get()
  async show(@Req() request: Request, @Res() response: Response): Promise<void> {
    const since = new Date(Date.now() - HOUR_MS).toISOString();
    sendPage(
      response,
      <Page title="Now" session={getSession(request)} at="/console" needs={['read']} isLive>
        <h2>Health of the replica that answered</h2>
        {this.renderHealth()}
        <BackgroundWork of={await this.readWork(request)} />
        <h2>What needs a person</h2>
        <ul>
          <NeedOfKeys name="app credentials" address="/console/keys" counts={await this.countKeys(request, 'apps')} />
          <NeedOfKeys name="nodes" address="/console/homes" counts={await this.countKeys(request, 'nodes')} />
          <ThrottledPeople count={await this.countThrottled(request)} />
        </ul>
        <Refusals counts={await this.countRefusals(request, since)} since={since} />
      </Page>,
    );
  }

  private renderHealth(): VNode {
    const { total, idle, limit, waiting } = this.database.pool;
    const skew = this.clock.skewSeconds;
    return (
      <Facts
        facts={[
          ['Connections to PostgreSQL', `${total - idle} of ${limit} in use, ${waiting} requests wait`],
          ['Lease', this.lease.isHeld ? <span class="good">held</span> : <span class="bad">lapsed</span>],
          [
            'Clock',
            this.clock.isWrong ? (
              <span class="bad">wrong by {skew?.toFixed(0)} s</span>
            ) : (
              <span class="good">right</span>
            ),
          ],
        ]}
      />
    );
  }

  private async readWork(request: Request): Promise<BackgroundWorkResponse | undefined> {
    if (!this.api.mayCall(getSession(request), 'work', 'getBackgroundWork')) return undefined;
    return this.api.call(request, 'work', 'getBackgroundWork');
  }

  private async countKeys(request: Request, kind: 'apps' | 'nodes'): Promise<KeyCountsResponse | undefined> {
    const { api } = this;
    const session = getSession(request);
    if (kind === 'apps')
      return api.mayCall(session, 'apps', 'countAppCredentials')
        ? api.call(request, 'apps', 'countAppCredentials')
        : undefined;
    return api.mayCall(session, 'nodes', 'countNodes') ? api.call(request, 'nodes', 'countNodes') : undefined;
  }

  private async countThrottled(request: Request): Promise<number | undefined> {
    const { api } = this;
    if (!api.mayCall(getSession(request), 'users', 'listUsers')) return undefined;
    const query = await api.read('query', UsersQuery, { throttled: 'true', limit: BATCH });
    return (await api.call(request, 'users', 'listUsers', query)).items.length;
  }

  /** @returns how many refusals of each event began a window in the last hour; undefined without the scope */
  private async countRefusals(request: Request, since: string): Promise<Map<CountedEvent, number> | undefined> {
    const { api } = this;
    if (!api.mayCall(getSession(request), 'audit', 'listAuditEvents')) return undefined;
    const counts = COUNTED_EVENTS.map(async (event) => {
      const query = await api.read('query', AuditEventsQuery, { event, since, limit: BATCH });
      const { items } = await api.call(request, 'audit', 'listAuditEvents', query);
      return [event, items.reduce((sum, { count }) => sum + count, 0)] as const;
    });
    return new Map(await Promise.all(counts));
  }
}

function BackgroundWork({ of: work }: { of: BackgroundWorkResponse | undefined }): VNode | null {
  if (!work) return null;
  const facts = work.items.map(({ name, seconds, is_overdue }) => {
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

function NeedOfKeys({
  name,
  address,
  counts,
}: {
  name: string;
  address: string;
  counts: KeyCountsResponse | undefined;
}): VNode {
  if (!counts) return <li>The {name} need another scope.</li>;
  const unusedSince = new Date(Date.now() - UNUSED_DAYS * DAY_MS).toISOString();
  return (
    <>
      <li>
        <a href={toAddress(address, { live: 'true' })}>
          {counts.expiring} of {counts.live} live {name}
        </a>{' '}
        expire within {EXPIRY_NOTICE_DAYS} days.
      </li>
      <li>
        <a href={toAddress(address, { live: 'true', unused_since: unusedSince })}>
          {counts.unused} {name}
        </a>{' '}
        were not used for {UNUSED_DAYS} days.
      </li>
    </>
  );
}

function ThrottledPeople({ count }: { count: number | undefined }): VNode | null {
  if (count === undefined) return null;
  return (
    <li>
      <a href={toAddress('/console/people', { throttled: 'true' })}>
        {count === Number(BATCH) ? `${BATCH} or more` : count} users
      </a>{' '}
      are refused now, because of wrong passwords or codes.
    </li>
  );
}

function Refusals({ counts, since }: { counts: Map<CountedEvent, number> | undefined; since: string }): VNode | null {
  if (!counts) return null;
  const rows = [...counts].map(([event, count]) => (
    <Row cells={[<a href={toAddress('/console/audit', { event, since })}>{event}</a>, count]} />
  ));
  return <Table caption="Refusals in the last hour" head={['Event', 'How many']} rows={rows} />;
}
