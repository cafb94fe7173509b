import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { eventually } from '../tools/eventually.js';
import { Life } from './ledger.js';
import type { Load } from './load.js';
import type { Scenario, Stage } from './stage.js';

const MAX_PERIODS = 10;
const acknowledged = z.tuple([z.object({ byAll: z.boolean() })]);

/**
 * Tests the judge: without a fault, false entries are added to the ledger. Exactly these must be reported, as wrong
 * verdicts or lost writes.
 */
export const selfTest: Scenario = {
  name: 'self-test',
  title: 'no fault, but seven lies in the ledger: they are found, and nothing else is',
  bounds: { errors: [], silenceMs: Infinity, slowestMs: Infinity },
  async run(stage) {
    const load = await stage.begin({ verifiers: true, consumers: true });
    await stage.rest();
    // On a slow machine a period of load may revoke nothing.
    for (let period = 1; load.ledger.revoked.length === 0 && period < MAX_PERIODS; period += 1) await stage.rest();
    const { wrong } = load.record;
    stage.expect(wrong.length === 0, `wrong before any false entry: ${wrong.join('; ')}`);
    addFalseEntries(load);
    await renameToldEvent(stage);
    await stage.rest();
  },
  judge: (load) => {
    const { session, membership } = chooseEntries(load);
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
    const told = names.map((name) => new RegExp(`of ${id}: told to ${name}, but not committed`));
    const losses = [
      /^a key never issued: issued, but missing/,
      /^node\.registered of .*: acknowledged, but not audited/,
      ...names.map((name) => new RegExp(`of ${id}: not told to ${name}`)),
      new RegExp(`^session ${session.id}: ended, but still live`),
    ];
    return [...compare(wrong, [...verdicts, ...verifiers, ...told]), ...compare(lost, losses)];
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
  ledger.credentials.push({ ...good, id: randomUUID(), key: { ...good.key, name: 'a key never issued' } });
}

/** Gives an act that was told another id, so that the told one was never committed, and the other one never told. */
async function renameToldEvent({ load, world }: Stage): Promise<void> {
  const { id } = chooseEntries(load).session.user;
  // A service that has not acknowledged it may stop, and then be told the new id.
  const isAcknowledged = async (): Promise<boolean> =>
    acknowledged.parse(
      await world.postgres
        .query(`SELECT count(*) > 0 AND every((subscribed.seal, subscribed.number) >= (events.seal, events.number)) AS "byAll"
        FROM event_subscriptions AS subscribed, events WHERE type = 'user.registered' AND subject = '${id}'`),
    )[0].byAll;
  await eventually('each service acknowledges a registration', isAcknowledged);
  const renamed = `id = '${randomUUID()}' WHERE subject = '${id}'`;
  await world.postgres.query(
    // A trigger makes the log append-only.
    `ALTER TABLE audit_events DISABLE TRIGGER audit_events_no_change; UPDATE events SET ${renamed} AND type = 'user.registered'; UPDATE audit_events SET ${renamed} AND event = 'user.registered'`,
  );
}

/** The true entries from which the false ones are made. */
function chooseEntries({ kept }: Load) {
  const [[good, live], [session], [, membership]] = [kept.credentials, kept.sessions, kept.memberships];
  if (!good || !live || !session || !membership) throw new Error('The load has no kept credentials');
  return { good, live, session, membership };
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
