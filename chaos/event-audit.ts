import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { PostgresServer } from '../tools/postgres-server.js';
import { now } from './client.js';
import type { Load } from './load.js';
import type { ConsumerProcess } from './verifiers/consumer-process.js';

const TELLING_TIMEOUT_MS = 30_000;
const TELLING_INTERVAL_MS = 100;

/** The acts that the judge compares, each with the event that tells it. */
const TOLD = [
  ['user.registered', 'user.registered'],
  ['admin.user.updated', 'user.disabled'],
  ['admin.node.issued', 'node.registered'],
  ['admin.node.revoked', 'node.revoked'],
  ['admin.app_credential.revoked', 'app.revoked'],
] as const;
export const EVENT_TYPES_TOLD = TOLD.map(([, type]) => type);

/** The committed acts, read from the audit log and not from the events that were copied from it. */
const READ_COMMITTED = `SELECT id || ':' || type AS id, subject, extract(epoch FROM time)::float8 * 1000 AS time
  FROM audit_events JOIN (VALUES ${TOLD.map(([event, type]) => `('${event}', '${type}')`).join(', ')}) AS told (event, type)
    USING (event)
  WHERE type <> 'user.disabled' OR details -> 'after' ->> 'is_active' = 'false'`;
/** The events that are not copied yet, or that a service has not acknowledged. */
const COUNT_UNTOLD = `SELECT (SELECT count(*) FROM (${READ_COMMITTED}) AS act
      WHERE id NOT IN (SELECT events.id || ':' || type FROM events))::int
    + (SELECT count(*) FROM event_subscriptions AS subscribed JOIN events ON type = ANY (types)
        AND (events.seal, events.number) > (subscribed.seal, subscribed.number))::int AS untold`;

const acts = z.array(z.object({ id: z.string(), subject: z.string(), time: z.number() }));
const untold = z.tuple([z.object({ untold: z.int() })]);
type Act = z.output<typeof acts>[number];

/** What a fault does to the services that read events. */
export interface EventExpectations {
  /** Whether they are reset; "perhaps": those that hold a cursor. */
  readonly resets: boolean | 'perhaps';
  /** Whether the database forgets what they were told. */
  readonly forgets: boolean;
}

interface EventAudit {
  readonly postgres: PostgresServer;
  readonly load: Load;
  readonly consumers: readonly ConsumerProcess[];
  readonly expected: EventExpectations;
  /** Multiplies how long the services may need to read what is left. */
  readonly patience: number;
}

/**
 * Checks that each service was told each committed act at least once, and nothing that was not committed. A reset stands
 * for the acts before it, because the service compares then; after a restore it also stands for what was told before.
 * @returns the services that were reset against the expectation
 */
export async function auditEvents(audited: EventAudit): Promise<string[]> {
  const { postgres, load, patience } = audited;
  const ledgers = new Map(audited.consumers.map((consumer) => [consumer.path, consumer]));
  if (ledgers.size === 0) return [];
  const end = now() + TELLING_TIMEOUT_MS * patience;
  while (untold.parse(await postgres.query(COUNT_UNTOLD))[0].untold > 0 && now() < end)
    await sleep(TELLING_INTERVAL_MS);
  const committed = acts.parse(await postgres.query(READ_COMMITTED));
  auditAcknowledged(load, committed);
  return [...ledgers.values()].flatMap((consumer) => auditLedger(audited, consumer, committed));
}

/** What was acknowledged to the actors is in the audit log, from which all events come. */
function auditAcknowledged({ ledger, record }: Load, committed: readonly Act[]): void {
  const known = new Set(committed.map(({ id, subject }) => `${id.split(':')[1] ?? ''} of ${subject}`));
  const acknowledged = [
    ...ledger.users.map(({ id }) => `user.registered of ${id}`),
    ...ledger.credentials.flatMap(({ kind, id, isRevoked }) => [
      ...(kind.name === 'node' ? [`node.registered of ${id}`] : []),
      ...(isRevoked ? [`${kind.door}.revoked of ${id}`] : []),
    ]),
  ];
  for (const act of acknowledged) if (!known.has(act)) record.addLostWrite(`${act}: acknowledged, but not audited`);
}

function auditLedger(
  { load: { record }, expected: { resets, forgets } }: EventAudit,
  consumer: ConsumerProcess,
  committed: readonly Act[],
): string[] {
  const ledger = consumer.readLedger();
  const ids = new Set(ledger.told.map(({ id }) => id));
  const lastReset = Math.max(-Infinity, ...ledger.resets);
  for (const { id, time, subject } of committed)
    if (!ids.has(id) && time > lastReset) record.addLostWrite(`${id} of ${subject}: not told to ${consumer.name}`);
  const known = new Set(committed.map(({ id }) => id));
  for (const { id, subject, resets: before } of ledger.told) {
    const isForgotten = forgets && before === 0;
    if (!known.has(id) && !isForgotten)
      record.addWrongVerdict(`${id} of ${subject}: told to ${consumer.name}, but not committed`);
  }
  const isAsExpected = resets === 'perhaps' || resets === ledger.resets.length > 0;
  return isAsExpected ? [] : [`the ${consumer.name} consumer was reset ${ledger.resets.length} times`];
}
