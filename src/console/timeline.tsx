import type { Request } from 'express';
import type { VNode } from 'preact';
import {
  AuditEventsAdminController,
  AuditEventsQuery,
  type AuditEventResponse,
} from '../admin/audit-events.admin.controller.js';
import { isId } from '../common/ids.js';
import type { AdminApi } from './admin-api.js';
import { getSession, type Fields } from './console-requests.js';
import { Moment, toAddress } from './view.js';

const AUDIT = '/console/audit';

/** @returns the newest audit events that a filter accepts; undefined without the scope for the audit log */
export async function readEvents(
  api: AdminApi,
  request: Request,
  filter: Fields,
  limit = 20,
): Promise<AuditEventResponse[] | undefined> {
  if (!api.mayCall(getSession(request), AuditEventsAdminController, 'listAuditEvents')) return undefined;
  const query = await api.read('query', AuditEventsQuery, { ...filter, limit: String(limit) });
  return (await api.call(request, AuditEventsAdminController, 'listAuditEvents', query)).items;
}

interface TimelineProps {
  readonly events: readonly AuditEventResponse[] | undefined;
  /** Of the events, for the audit log. */
  readonly filter: Fields;
  readonly title?: string;
}

export function Timeline({ events, filter, title = 'Time line' }: TimelineProps): VNode {
  return (
    <section>
      <h2>{title}</h2>
      {events === undefined && <p>The audit log needs the scope read.</p>}
      {events?.length === 0 && <p>The audit log has no such event.</p>}
      <ol class="timeline">
        {events?.map((event) => (
          <li>
            <Moment at={event.time} /> · <b>{event.event}</b> {describeCount(event)} by {describeActor(event)}
            {event.address !== null && ` from ${event.address}`}
          </li>
        ))}
      </ol>
      <p>
        <a href={toAddress(AUDIT, filter)}>In the audit log</a>
      </p>
    </section>
  );
}

/** The filter of the audit log takes ids, and not the networks and doors that are subjects too. */
export function SubjectLink({ subject }: Pick<AuditEventResponse, 'subject'>): VNode {
  const isFilter = subject !== null && (isId(subject) || subject.startsWith('unknown:'));
  return isFilter ? <a href={toAddress(AUDIT, { subject })}>{subject}</a> : <>{subject}</>;
}

/** How often, and for which reasons, what is counted was refused; of other events only how often, when it is more than once. */
export function describeCount({ count, details }: AuditEventResponse): string {
  const reasons = Object.keys(details.reasons ?? {}).join(', ');
  if (reasons !== '') return `${count} × ${reasons}`;
  return count > 1 ? `${count} ×` : '';
}

export function describeActor({ actor }: Pick<AuditEventResponse, 'actor'>): string {
  return actor.name ?? (actor.id === null ? actor.door : `${actor.door} ${actor.id}`);
}
