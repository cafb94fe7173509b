import { randomUUID } from 'node:crypto';
import { Life } from './ledger.js';
import type { Load } from './load.js';
import type { Scenario } from './stage.js';

const MAX_PERIODS = 10;

/**
 * Tests the judge: without a fault, false entries are added to the ledger. Exactly these must be reported, as wrong
 * verdicts or lost writes.
 */
export const selfTest: Scenario = {
  name: 'self-test',
  title: 'no fault, but six lies in the ledger: they are found, and nothing else is',
  bounds: { errors: [], silenceMs: Infinity, slowestMs: Infinity },
  async run(stage) {
    const load = await stage.begin({ verifiers: true });
    await stage.rest();
    // On a slow machine a period of load may revoke nothing.
    for (let period = 1; load.ledger.revoked.length === 0 && period < MAX_PERIODS; period += 1) await stage.rest();
    const { wrong } = load.record;
    stage.expect(wrong.length === 0, `wrong before any false entry: ${wrong.join('; ')}`);
    addFalseEntries(load);
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
    const losses = [
      /^a key never issued: issued, but missing/,
      new RegExp(`^session ${session.id}: ended, but still live`),
    ];
    return [...compare(wrong, [...verdicts, ...verifiers]), ...compare(lost, losses)];
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
