import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { now } from './client.js';
import type { Load } from './load.js';
import type { Stage } from './stage.js';
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

/**
 * Checks that each service was told each committed act at least once, and nothing that was not committed. A reset stands
 * for the acts before it, because the service compares then; after a restore it also stands for what was told before.
 */
export async function auditEvents(stage: Stage): Promise<void> {
  const { load, world } = stage;
  const ledgers = new Map(world.consumers.map((consumer) => [consumer.path, consumer]));
  if (ledgers.size === 0) return;
  const end = now() + stage.scale(TELLING_TIMEOUT_MS);
  while (untold.parse(await world.postgres.query(COUNT_UNTOLD))[0].untold > 0 && now() < end)
    await sleep(TELLING_INTERVAL_MS);
  const committed = acts.parse(await world.postgres.query(READ_COMMITTED));
  auditAcknowledged(load, committed);
  for (const consumer of ledgers.values()) auditLedger(stage, consumer, committed);
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

function auditLedger(stage: Stage, consumer: ConsumerProcess, committed: readonly Act[]): void {
  const { record } = stage.load;
  const { told, resets } = consumer.readLedger();
  const ids = new Set(told.map(({ id }) => id));
  const lastReset = Math.max(-Infinity, ...resets);
  for (const { id, time, subject } of committed)
    if (!ids.has(id) && time > lastReset) record.addLostWrite(`${id} of ${subject}: not told to ${consumer.name}`);
  const known = new Set(committed.map(({ id }) => id));
  for (const { id, subject, resets: before } of told) {
    const isForgotten = stage.events.forgets && before === 0;
    if (!known.has(id) && !isForgotten)
      record.addWrongVerdict(`${id} of ${subject}: told to ${consumer.name}, but not committed`);
  }
  const expected = stage.events.resets;
  const isAsExpected = expected === 'perhaps' || expected === resets.length > 0;
  stage.expect(isAsExpected, `the ${consumer.name} consumer was reset ${resets.length} times`);
}
