import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { EVENT_TYPES } from '../src/domain/events/event-types.js';
import { eventually } from '../tools/eventually.js';
import { Life, type Act } from './ledger.js';
import type { Load } from './load.js';
import type { Scenario, Stage } from './stage.js';

const MAX_PERIODS = 10;
const acknowledged = z.tuple([z.object({ byAll: z.boolean() })]);
const subjects = z.array(z.object({ subject: z.string() }));
/** Nodes whose issue and revocation are in different seals. */
const FIND_LONG_LIVES = `SELECT subject FROM events WHERE type IN ('node.registered', 'node.revoked')
  GROUP BY subject HAVING count(DISTINCT seal) = 2`;
const HAS_RECEIPT = `SELECT FROM audit_events WHERE event = 'user.deletion.acknowledged' LIMIT 1`;
/** The audit log is append-only by a trigger. */
const UNLOCK = 'ALTER TABLE audit_events DISABLE TRIGGER audit_events_no_change';

/**
 * Tests the judge: without a fault, false entries are added to the ledger. Exactly these must be reported, as wrong
 * verdicts or lost writes.
 */
export const selfTest: Scenario = {
  name: 'self-test',
  title: 'no fault, but eleven lies in the ledger: they are found, and nothing else is',
  bounds: { errors: [], silenceMs: Infinity, slowestMs: Infinity },
  async run(stage) {
    const load = await stage.begin({ verifiers: true, consumers: true });
    await stage.rest();
    // On a slow machine a period of load may not do everything.
    for (let period = 1; listMissing(load).length > 0 && period < MAX_PERIODS; period += 1) await stage.rest();
    stage.expect(
      listMissing(load).length === 0,
      `the load did nothing that is told as ${listMissing(load).join(', ')}`,
    );
    const { wrong } = load.record;
    stage.expect(wrong.length === 0, `wrong before any false entry: ${wrong.join('; ')}`);
    addFalseEntries(load);
    await swapActs(stage);
    await addFalseEvents(stage);
    await stage.rest();
  },
  judge: (load) => {
    const { session, membership, repeated } = chooseEntries(load);
    const { wrong, lost } = load.record;
    const verdicts = [
      /a revoked key: accepted .* after its end was acknowledged/,
      new RegExp(`users/me of session ${session.id}: accepted .* after its end was acknowledged`),
      /a (revived key|key never issued): refused before its end was requested/,
      new RegExp(`validate-user of an admin of household ${membership.household}: accepted .* after its end`),
    ];
    const verifiers = load.verifiers.flatMap(({ name }) => [
      new RegExp(`${name} user of session ${session.id}: accepted .* after its end was acknowledged`),
      new RegExp(`${name} user of an admin of household ${membership.household}: accepted .* after its end`),
    ]);
    const { id } = session.user;
    const names = load.verifiers.map(({ name }) => name);
    const told = names.flatMap((name) => [
      new RegExp(`of ${id}: told to ${name}, but not committed`),
      new RegExp(`told to ${name} in seal \\d+, after seal`),
    ]);
    const acts = [
      new RegExp(`user.registered of ${repeated.id}: 1 requested, but 2 audited`),
      /node\.\w+ of .*: in seal \d+, but an act before it is in seal/,
      /a receipt of events-\w+, which was not told/,
    ];
    const losses = [
      /^a key never issued: issued, but missing/,
      /^node\.registered of .*: 1 acknowledged, but 0 audited/,
      /acknowledged by events-\w+, but without a receipt/,
      ...names.map((name) => new RegExp(`of ${id}: not told to ${name}`)),
      new RegExp(`^session ${session.id}: ended, but still live`),
    ];
    return [...compare(wrong, [...verdicts, ...verifiers, ...told, ...acts]), ...compare(lost, losses)];
  },
};

function addFalseEntries(load: Load): void {
  const { good, live, session, membership } = chooseEntries(load);
  live.key.life.markEnding();
  live.key.life.markEnded();
  live.key = { ...live.key, name: 'a revoked key' };
  session.life.markEnding();
  session.life.markEnded();
  membership.asAdmin.markEnding();
  membership.asAdmin.markEnded();
  const { ledger } = load;
  const [revoked] = ledger.revoked;
  if (revoked) {
    ledger.revoked.unshift({ ...revoked, key: { ...revoked.key, name: 'a revived key', life: new Life() } });
  }
  const id = randomUUID();
  ledger.addActs(['node.registered'], id);
  ledger.credentials.push({ ...good, id, key: { ...good.key, name: 'a key never issued' } });
}

/** @returns the types of events that no act of the load has */
function listMissing({ ledger }: Load): string[] {
  const types = new Set(ledger.acts.filter(({ isAcknowledged }) => isAcknowledged).map(({ type }) => type));
  return EVENT_TYPES.filter((type) => !types.has(type));
}

/** Says that a node was revoked before it was issued. */
async function swapActs({ load, world }: Stage): Promise<void> {
  const { acts } = load.ledger;
  let swapped: [Act, Act] | undefined;
  await eventually('a node lives for longer than a seal', async () => {
    const found = new Set(subjects.parse(await world.postgres.query(FIND_LONG_LIVES)).map(({ subject }) => subject));
    const revoked = acts.find((act) => act.type === 'node.revoked' && act.isAcknowledged && found.has(act.subject));
    const issued = acts.find((act) => act.type === 'node.registered' && act.subject === revoked?.subject);
    if (revoked && issued) swapped = [revoked, issued];
    return swapped !== undefined;
  });
  if (!swapped) return;
  const [revoked, issued] = swapped.map((act) => acts.indexOf(act)) as [number, number];
  [acts[revoked], acts[issued]] = [swapped[1], swapped[0]];
}

/**
 * Gives an act and a deletion other ids after they were told, so that the told ones were never committed and the others
 * never told; repeats an act; and moves one to the last seal, so that it was told too early.
 */
async function addFalseEvents({ load, world: { postgres } }: Stage): Promise<void> {
  const { session, repeated, moved } = chooseEntries(load);
  const { id } = session.user;
  // A service that has not acknowledged them may stop, and then be told the new ids.
  const isAcknowledged = async (): Promise<boolean> =>
    acknowledged.parse(
      await postgres.query(
        `SELECT count(*) > 0 AND every((subscribed.seal, subscribed.number) >= (events.seal, events.number)) AS "byAll"
        FROM event_subscriptions AS subscribed, events WHERE type = 'user.registered' AND subject = ANY ($1)`,
        [[id, moved.id]],
      ),
    )[0].byAll;
  await eventually('each service acknowledges the registrations', isAcknowledged);
  await eventually('a service acknowledges a deletion', async () => (await postgres.query(HAS_RECEIPT)).length > 0);
  const renamed = `id = gen_random_uuid() WHERE subject = '${id}'`;
  const lies = [
    UNLOCK,
    `UPDATE events SET ${renamed} AND type = 'user.registered'`,
    `UPDATE audit_events SET ${renamed} AND event = 'user.registered'`,
    `UPDATE events SET seal = (SELECT seal FROM event_position), number = 1000
      WHERE type = 'user.registered' AND subject = '${moved.id}'`,
    `UPDATE audit_events SET details = jsonb_set(details, '{deletion}', to_jsonb(gen_random_uuid()))
      WHERE id = (SELECT id FROM audit_events WHERE event = 'user.deletion.acknowledged' LIMIT 1)`,
    `INSERT INTO audit_events (id, time, event, actor_door, subject, count, details)
      SELECT gen_random_uuid(), now(), event, actor_door, subject, count, details
      FROM audit_events WHERE event = 'user.registered' AND subject = '${repeated.id}'`,
  ];
  await postgres.query(lies.join('; '));
}

/** The true entries from which the false ones are made. */
function chooseEntries({ kept }: Load) {
  const [[good, live], [session, second, third], [, membership]] = [kept.credentials, kept.sessions, kept.memberships];
  if (!good || !live || !session || !second || !third || !membership)
    throw new Error('The load has no kept credentials');
  return { good, live, session, membership, repeated: second.user, moved: third.user };
}

/** @returns the patterns that no text matches, and the texts that match none */
function compare(texts: readonly string[], patterns: readonly RegExp[]): string[] {
  const missing = patterns.filter((pattern) => !texts.some((text) => pattern.test(text)));
  const others = texts.filter((text) => !patterns.some((pattern) => pattern.test(text)));
  return [
    ...missing.map((pattern) => `not found: ${String(pattern)}`),
    ...others.map((text) => `not a false entry: ${text}`),
  ];
}
