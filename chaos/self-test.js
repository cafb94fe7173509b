import { randomUUID } from 'node:crypto';
import { Life } from './ledger.js';

/**
 * Tests the judge: no fault is injected, but false entries are added to the ledger. Each must be reported as a wrong
 * verdict or a lost write, and nothing else may be reported.
 */
export const selfTest = {
  name: 'self-test',
  title: 'no fault, but five lies in the ledger: they are found, and nothing else is',
  bounds: {},
  async run({ world, quiet, expect }) {
    await quiet();
    const { load, ledger, record } = world;
    expect(record.wrong.length === 0, `wrong before any false entry: ${record.wrong[0]}`);
    const [good, revoked] = load.kept.credentials;
    Object.assign(revoked.key, { name: 'a revoked key' }).life.ending();
    revoked.key.life.ended();
    const [session] = load.kept.sessions;
    session.life.ending();
    session.life.ended();
    const revived = { ...ledger.revoked[0] };
    revived.key = { ...revived.key, name: 'a revived key', life: new Life() };
    ledger.revoked.unshift(revived);
    ledger.credentials.push({ ...good, id: randomUUID(), key: { ...good.key, name: 'a key never minted' } });
    this.revokedSession = session.id;
    await quiet();
  },
  judge({ wrong, lost }) {
    const broken = [];
    const isFound = (list, pattern) => list.some((text) => pattern.test(text)) || broken.push(`not found: ${pattern}`);
    const falseEntries = [
      /a revoked key: accepted .* after its end was acknowledged/,
      new RegExp(`users/me of session ${this.revokedSession}: accepted .* after its end was acknowledged`),
      /a (revived key|key never minted): refused before its end was requested/,
    ];
    const losses = [
      /^a key never minted: minted, but missing/,
      new RegExp(`^session ${this.revokedSession}: ended, but still live`),
    ];
    for (const entry of falseEntries) isFound(wrong, entry);
    for (const loss of losses) isFound(lost, loss);
    const others = [
      ...wrong.filter((text) => !falseEntries.some((entry) => entry.test(text))),
      ...lost.filter((text) => !losses.some((loss) => loss.test(text))),
    ];
    return [...broken, ...others.map((text) => `not a false entry: ${text}`)];
  },
};
