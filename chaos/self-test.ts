import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { EVENT_TYPES } from '../src/domain/events/event-types.js';
import { eventually } from '../tools/eventually.js';
import type { Act } from './acts.js';
import type { Answer } from './client.js';
import { Life } from './ledger.js';
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
  title: 'no fault, but fifteen lies in the ledger: they are found, and nothing else is',
  bounds: { errors: [], silenceMs: Infinity, slowestMs: Infinity },
  async run(stage) {
    const load = await stage.begin({ verifiers: true, consumers: true });
    await restUntil(stage, () => listMissing(load).length === 0);
    stage.expect(
      listMissing(load).length === 0,
      `the load did nothing that is told as ${listMissing(load).join(', ')}`,
    );
    const { wrong } = load.record;
    stage.expect(wrong.length === 0, `wrong before any false entry: ${wrong.join('; ')}`);
    addFalseEntries(load);
    await swapActs(stage);
    await tellSecrets(stage);
    await addFalseEvents(stage);
    const verdicts = listFalseVerdicts(load);
    await restUntil(stage, () => verdicts.every((pattern) => load.record.wrong.some((text) => pattern.test(text))));
  },
  judge: (load) => {
    const { session, repeated, good, other } = chooseEntries(load);
    const { wrong, lost } = load.record;
    const { id } = session.user;
    const names = load.verifiers.map(({ name }) => name);
    const told = names.flatMap((name) => [
      new RegExp(`of ${id}: told to ${name}, but not committed`),
      new RegExp(`told to ${name} in seal \\d+, after seal`),
      new RegExp(`of ${good.id}: told to ${name} with other fields than its type has`),
      new RegExp(`of ${good.id}: told to ${name} as .*api_key.*, but audited as`),
      new RegExp(`of ${good.id}: told to ${name} with an address or a secret of user ${repeated.id}`),
      new RegExp(`of ${good.id}: told to ${name} with an address or a secret of node ${good.id}`),
      new RegExp(`of ${other.id}: told to ${name} as .*hall.*, but audited as .*cellar`),
    ]);
    const acts = [
      new RegExp(`user.registered of ${repeated.id}: 1 requested, but 2 audited`),
      /node\.\w+ of .*: in seal \d+, but an act before it is in seal/,
      /a receipt of events-\w+, which was not told/,
      new RegExp(`node.registered of ${other.id}: no event has the data .*hall`),
      new RegExp(`node.registered of ${other.id}: no act has the data .*cellar`),
    ];
    const losses = [
      /^a key never issued: issued, but missing/,
      /^node\.registered of .*: 1 acknowledged, but 0 audited/,
      /acknowledged by events-\w+, but without a receipt/,
      ...names.map((name) => new RegExp(`of ${id}: not told to ${name}`)),
      new RegExp(`^session ${session.id}: ended, but still live`),
    ];
    return [...compare(wrong, [...listFalseVerdicts(load), ...told, ...acts]), ...compare(lost, losses)];
  },
};

/** Rests once, and again while a slow machine has not done everything. */
async function restUntil(stage: Stage, isDone: () => boolean): Promise<void> {
  await stage.rest();
  for (let period = 1; !isDone() && period < stage.scale(MAX_PERIODS); period += 1) await stage.rest();
}

/** How the verdicts are reported that the false entries make wrong. */
function listFalseVerdicts(load: Load): RegExp[] {
  const { session, membership } = chooseEntries(load);
  const verifiers = load.verifiers.flatMap(({ name }) => [
    new RegExp(`${name} user of session ${session.id}: accepted .* after its end was acknowledged`),
    new RegExp(`${name} user of an admin of household ${membership.household}: accepted .* after its end`),
  ]);
  return [
    /a revoked key: accepted .* after its end was acknowledged/,
    new RegExp(`users/me of session ${session.id}: accepted .* after its end was acknowledged`),
    /a (revived key|key never issued): refused before its end was requested/,
    new RegExp(`validate-user of an admin of household ${membership.household}: accepted .* after its end`),
    ...verifiers,
  ];
}

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
  ledger.addActs({ 'node.registered': {} }, id);
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

/** Names a node like the address of a user, and adds its key to the event that tells the name. */
async function tellSecrets({ load, world: { postgres } }: Stage): Promise<void> {
  const { good, repeated } = chooseEntries(load);
  const { id, key } = good;
  await postgres.query(`
    CREATE FUNCTION tell_a_key() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN NEW.data := NEW.data || '{"api_key": "${key.text}"}'; RETURN NEW; END $$;
    CREATE TRIGGER tell_a_key BEFORE INSERT ON events FOR EACH ROW
      WHEN (NEW.type = 'node.changed' AND NEW.subject = '${id}') EXECUTE FUNCTION tell_a_key()`);
  const { email: name } = repeated;
  const attempt = (): Promise<Answer> => load.askAsAdmin('PATCH', `/nodes/${id}`, { name });
  const isTold = await load.ledger.perform({ 'node.changed': { name } }, id, () =>
    load.insist('admin', `renaming node ${id}`, attempt, 200),
  );
  if (!isTold) throw new Error('The new name of a node was not acknowledged');
}

/**
 * Gives an act and a deletion other ids after they were told, so that the told ones were never committed and the others
 * never told; repeats an act; moves one to the last seal, so that it was told too early; and has a node registered in
 * another room than it was.
 */
async function addFalseEvents({ load, world: { postgres } }: Stage): Promise<void> {
  const { session, repeated, moved, other } = chooseEntries(load);
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
    `UPDATE audit_events SET details = jsonb_set(details, '{after,room}', '"cellar"')
      WHERE event = 'admin.node.issued' AND subject = '${other.id}'`,
    `INSERT INTO audit_events (id, time, event, actor_door, subject, count, details)
      SELECT gen_random_uuid(), now(), event, actor_door, subject, count, details
      FROM audit_events WHERE event = 'user.registered' AND subject = '${repeated.id}'`,
  ];
  await postgres.query(lies.join('; '));
}

/** The true entries from which the false ones are made. */
function chooseEntries({ kept }: Load) {
  const [good, live, other] = kept.credentials;
  const [[session, second, third], [, membership]] = [kept.sessions, kept.memberships];
  if (!good || !live || !other || !session || !second || !third || !membership)
    throw new Error('The load has no kept credentials');
  return { good, live, other, session, membership, repeated: second.user, moved: third.user };
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
