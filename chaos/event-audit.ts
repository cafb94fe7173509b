import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { PUBLISHED_AUDIT_EVENTS, toEvents, toSubjectKind } from '../src/domain/events/event-types.js';
import type { PostgresServer } from '../tools/postgres-server.js';
import type { Act } from './acts.js';
import { now } from './client.js';
import { findUntrueData, hasPromisedForm } from './event-data.js';
import type { Load } from './load.js';
import { toConsumingService, type ConsumerProcess, type ToldEvent } from './verifiers/consumer-process.js';

const TELLING_TIMEOUT_MS = 30_000;
const TELLING_INTERVAL_MS = 250;
/** The most events in one answer. When a later answer was read, a service has acknowledged all events before it. */
const BATCH_SIZE = 100;

const READ_AUDIT_LOG = `SELECT id, event, subject, details, count, extract(epoch FROM time)::float8 * 1000 AS time
  FROM audit_events WHERE event = ANY ($1) AND subject IS NOT NULL`;
const READ_SEALS = `SELECT id || ':' || type AS id, seal::float8 FROM events ORDER BY seal`;
const COUNT_UNREAD = `SELECT count(*)::int AS unread FROM event_subscriptions AS subscribed
  JOIN events ON type = ANY (types) AND (events.seal, events.number) > (subscribed.seal, subscribed.number)`;
const READ_RECEIPTS = `SELECT details ->> 'service' AS service, (details ->> 'deletion') || ':user.deleted' AS deletion
  FROM audit_events WHERE event = 'user.deletion.acknowledged'`;

const auditRows = z.array(
  z.object({
    id: z.string(),
    event: z.string(),
    subject: z.string(),
    details: z.record(z.string(), z.unknown()),
    count: z.int(),
    time: z.number(),
  }),
);
const sealRows = z.array(z.object({ id: z.string(), seal: z.number() }));
const unreadRows = z.tuple([z.object({ unread: z.int() })]);
const receiptRows = z.array(z.object({ service: z.string(), deletion: z.string() }));

/** An event of a committed act, as the audit log has it. */
interface CommittedEvent extends Pick<Act, 'type' | 'subject' | 'data'> {
  /** As a service is told it. */
  readonly id: string;
  readonly time: number;
}

/** What a service may be told, and what it acknowledged. */
interface Committed {
  readonly events: readonly CommittedEvent[];
  /** The number of the seal by the id of the event, in the order of the seals. */
  readonly seals: ReadonlyMap<string, number>;
  readonly receipts: z.output<typeof receiptRows>;
}

/** What a fault does to the services that read events. */
export interface EventExpectations {
  /** Whether each of them is reset. */
  readonly resets: boolean;
  /** Resets before this time (Unix ms) do not count. */
  readonly since?: number;
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
 * Checks that each acknowledged act has exactly its events, and that each service was told each committed event at least
 * once, in the order of the seals, as its audit row has it, and nothing that was not committed. A reset stands for the acts
 * before it, because the service compares then; after a restore it also stands for what was told before.
 * @returns the services that were reset against the expectation
 */
export async function auditEvents(audited: EventAudit): Promise<string[]> {
  const { postgres, load, consumers, patience } = audited;
  const ledgers = new Map(consumers.map((consumer) => [consumer.path, consumer]));
  const committed = await readCommitted(postgres, ledgers.size === 0 ? 0 : TELLING_TIMEOUT_MS * patience);
  auditActs(load, committed);
  return [...ledgers.values()].flatMap((consumer) => auditService(audited, consumer, committed));
}

/** @param timeoutMs how long it waits for the services to read everything */
async function readCommitted(postgres: PostgresServer, timeoutMs: number): Promise<Committed> {
  const end = now() + timeoutMs;
  for (;;) {
    const events = auditRows
      .parse(await postgres.query(READ_AUDIT_LOG, [PUBLISHED_AUDIT_EVENTS]))
      .flatMap((row) => toEvents(row).map((event) => ({ ...row, id: `${row.id}:${event.type}`, ...event })));
    const seals = new Map(sealRows.parse(await postgres.query(READ_SEALS)).map(({ id, seal }) => [id, seal]));
    const [{ unread }] = unreadRows.parse(await postgres.query(COUNT_UNREAD));
    const isAllRead = unread === 0 && events.every(({ id }) => seals.has(id));
    if (isAllRead || now() >= end)
      return { events, seals, receipts: receiptRows.parse(await postgres.query(READ_RECEIPTS)) };
    await sleep(TELLING_INTERVAL_MS);
  }
}

function groupByAct<Item extends Pick<Act, 'type' | 'subject'>>(items: readonly Item[]): ReadonlyMap<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(describeAct(item), [...(groups.get(describeAct(item)) ?? []), item]);
  return groups;
}

function describeAct({ type, subject }: Pick<Act, 'type' | 'subject'>): string {
  return `${type} of ${subject}`;
}

/** An act without a response may have its event or not. The seals keep the order of the acts on one subject. */
function auditActs({ ledger, record }: Load, { events, seals }: Committed): void {
  const eventsByAct = groupByAct(events);
  const sealsByAct = new Map<string, number[]>();
  for (const [what, acts] of groupByAct(ledger.acts)) {
    const audited = eventsByAct.get(what) ?? [];
    const ids = audited.map(({ id }) => id);
    const acknowledged = acts.filter(({ isAcknowledged }) => isAcknowledged).length;
    if (ids.length < acknowledged)
      record.addLostWrite(`${what}: ${acknowledged} acknowledged, but ${ids.length} audited`);
    else if (ids.length > acts.length)
      record.addWrongVerdict(`${what}: ${acts.length} requested, but ${ids.length} audited`);
    else for (const text of findUntrueData(acts, audited)) record.addWrongVerdict(`${what}: ${text}`);
    if (ids.length !== acknowledged || acknowledged !== acts.length) continue;
    sealsByAct.set(
      what,
      ids.flatMap((id) => seals.get(id) ?? []).sort((a, b) => a - b),
    );
  }
  const lastSeals = new Map<string, number>();
  for (const act of ledger.acts) {
    const seal = sealsByAct.get(describeAct(act))?.shift();
    if (seal === undefined) continue;
    const last = lastSeals.get(act.subject) ?? seal;
    if (seal < last)
      record.addWrongVerdict(`${describeAct(act)}: in seal ${seal}, but an act before it is in seal ${last}`);
    lastSeals.set(act.subject, seal);
  }
}

function auditService(audited: EventAudit, consumer: ConsumerProcess, committed: Committed): string[] {
  const { load, expected } = audited;
  const { told, resets } = consumer.readLedger();
  const ids = new Set<string>();
  const firsts = told.filter(({ id }) => !ids.has(id) && ids.add(id));
  auditTold(audited, consumer, committed, { firsts, resets });
  auditData(load, consumer, committed, told);
  auditOrder(load, consumer, committed, firsts);
  auditReceipts(audited, consumer, committed, { firsts, resets });
  const count = resets.filter((time) => time >= (expected.since ?? 0)).length;
  return expected.resets === count > 0 ? [] : [`the ${consumer.name} consumer was reset ${count} times`];
}

/** The ledger of a service. */
interface Ledger {
  /** Each event when it was told first. */
  readonly firsts: readonly ToldEvent[];
  readonly resets: readonly number[];
}

function auditTold(
  { load: { record }, expected }: EventAudit,
  { name }: ConsumerProcess,
  { events }: Committed,
  { firsts, resets }: Ledger,
): void {
  const ids = new Set(firsts.map(({ id }) => id));
  const lastReset = Math.max(-Infinity, ...resets);
  for (const { id, time, subject } of events)
    if (!ids.has(id) && time > lastReset) record.addLostWrite(`${id} of ${subject}: not told to ${name}`);
  const known = new Set(events.map(({ id }) => id));
  for (const { id, subject, resets: before } of firsts) {
    const isForgotten = expected.forgets && before === 0;
    if (!known.has(id) && !isForgotten)
      record.addWrongVerdict(`${id} of ${subject.id}: told to ${name}, but not committed`);
  }
}

/**
 * Each event has what its audit row promises, also when it comes again, and never an address or a secret. The row of one
 * that a restore forgot is gone.
 */
function auditData(
  { ledger, record }: Load,
  { name }: ConsumerProcess,
  { events }: Committed,
  told: readonly ToldEvent[],
): void {
  const promised = new Map(events.map((event) => [event.id, event]));
  const wrong = new Set<string>();
  for (const { id, type, time, subject, data } of told) {
    const event = promised.get(id);
    const what = `${id} of ${subject.id}: told to ${name}`;
    const content = { type, subject, data };
    if (event && !isDeepStrictEqual(content, describeContent(event)))
      wrong.add(`${what} as ${JSON.stringify(content)}, but audited as ${JSON.stringify(describeContent(event))}`);
    if (event && Math.abs(time - event.time) >= 1) wrong.add(`${what} with another time`);
    if (!hasPromisedForm(type, data)) wrong.add(`${what} with other fields than its type has`);
  }
  const everything = JSON.stringify(told);
  for (const [secret, owner] of ledger.secrets) {
    // Most are nowhere, so all events are searched at once.
    if (!everything.includes(secret)) continue;
    for (const event of told)
      if (JSON.stringify(event).includes(secret))
        wrong.add(`${event.id} of ${event.subject.id}: told to ${name} with an address or a secret of ${owner}`);
  }
  for (const text of wrong) record.addWrongVerdict(text);
}

function describeContent({ type, subject: id, data }: CommittedEvent): Pick<ToldEvent, 'type' | 'subject' | 'data'> {
  // JSON has no undefined.
  return { type, subject: { kind: toSubjectKind(type), id }, data: JSON.parse(JSON.stringify(data)) as Act['data'] };
}

/** What comes again after a crash may be older. What comes first may not, because then a cursor had passed it. */
function auditOrder({ record }: Load, { name }: ConsumerProcess, { seals }: Committed, firsts: Ledger['firsts']): void {
  let last = { seal: 0, resets: 0 };
  for (const { id, subject, resets } of firsts) {
    const seal = seals.get(id);
    if (seal === undefined) continue;
    if (resets === last.resets && seal < last.seal)
      record.addWrongVerdict(`${id} of ${subject.id}: told to ${name} in seal ${seal}, after seal ${last.seal}`);
    last = { seal, resets };
  }
}

/** Each deletion that a service acknowledged has one receipt, and no other one has. */
function auditReceipts(
  { load: { record }, expected }: EventAudit,
  consumer: ConsumerProcess,
  { seals, receipts }: Committed,
  { firsts, resets }: Ledger,
): void {
  const service = toConsumingService(consumer);
  const counts = new Map<string, number>();
  for (const { deletion } of receipts.filter((receipt) => receipt.service === service))
    counts.set(deletion, (counts.get(deletion) ?? 0) + 1);
  for (const [index, { id, resets: before }] of firsts.entries()) {
    if (!id.endsWith(':user.deleted')) continue;
    const hasLaterAnswer = !expected.forgets && firsts[index + BATCH_SIZE]?.resets === before;
    const isAcknowledged = before === resets.length || hasLaterAnswer;
    const count = counts.get(id) ?? 0;
    if (isAcknowledged && seals.has(id) && count === 0)
      record.addLostWrite(`${id}: acknowledged by ${service}, but without a receipt`);
    if (count > 1) record.addWrongVerdict(`${id}: ${count} receipts of ${service}`);
    counts.delete(id);
  }
  for (const id of counts.keys()) record.addWrongVerdict(`${id}: a receipt of ${service}, which was not told`);
}
