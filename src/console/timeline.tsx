import type { Request } from 'express';
import type { VNode } from 'preact';
import { AuditEventsQuery, type AuditEventResponse } from '../admin/audit-events.admin.controller.js';
import type { AdminApi } from './admin-api.js';
import { getSession } from './console-requests.js';
import { Moment, toAddress } from './view.js';

const LENGTH = 20;

/** @returns the newest audit events about a subject; undefined without the scope for the audit log */
export async function readTimeline(
  api: AdminApi,
  request: Request,
  subject: string,
): Promise<AuditEventResponse[] | undefined> {
  if (!api.mayCall(getSession(request), 'audit', 'listAuditEvents')) return undefined;
  const query = await api.read('query', AuditEventsQuery, { subject, limit: String(LENGTH) });
  return (await api.call(request, 'audit', 'listAuditEvents', query)).items;
}

export function Timeline({ events, subject }: { events: AuditEventResponse[] | undefined; subject: string }): VNode {
  return (
    <section>
      <h2>Time line</h2>
      {events === undefined && <p>The audit log needs the scope read.</p>}
      {events?.length === 0 && <p>The audit log has no event about it.</p>}
      <ol class="timeline">
        {events?.map((event) => (
          <li>
            <Moment at={event.time} /> · <b>{event.event}</b> by {describeActor(event)}
          </li>
        ))}
      </ol>
      <p>
        <a href={toAddress('/console/audit', { subject })}>All events about it</a>
      </p>
    </section>
  );
}

export function describeActor({ actor }: Pick<AuditEventResponse, 'actor'>): string {
  return actor.name ?? (actor.id === null ? actor.door : `${actor.door} ${actor.id}`);
}
