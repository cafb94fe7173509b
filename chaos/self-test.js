import { randomUUID } from 'node:crypto';
import { Life } from './ledger.js';

/**
 * Nothing is broken but the ledger: lies are entered into it. Each must come out as a wrong verdict or a lost write,
 * and nothing else may.
 */
export const selfTest = {
  name: 'self-test',
  title: 'no fault, but five lies in the ledger: they are found, and nothing else is',
  bounds: {},
  async run({ world, quiet, expect }) {
    await quiet();
    const { load, ledger, record } = world;
    expect(record.wrong.length === 0, `wrong before any lie: ${record.wrong[0]}`);
    const [good, renounced] = load.kept.credentials;
    Object.assign(renounced.key, { name: 'a renounced key' }).life.ending();
    renounced.key.life.ended();
    const [session] = load.kept.sessions;
    session.life.ending();
    session.life.ended();
    const risen = { ...ledger.graves[0] };
    risen.key = { ...risen.key, name: 'a risen key', life: new Life() };
    ledger.graves.unshift(risen);
    ledger.credentials.push({ ...good, id: randomUUID(), key: { ...good.key, name: 'a key nobody minted' } });
    this.renouncedSession = session.id;
    await quiet();
  },
  judge({ wrong, lost }) {
    const broken = [];
    const isFound = (list, pattern) => list.some((text) => pattern.test(text)) || broken.push(`not found: ${pattern}`);
    const lies = [
      /a renounced key: accepted .* after its end was acknowledged/,
      new RegExp(`users/me of session ${this.renouncedSession}: accepted .* after its end was acknowledged`),
      /a (risen key|key nobody minted): refused, and nobody had asked for its end/,
    ];
    const losses = [
      /^a key nobody minted: minted, and not there/,
      new RegExp(`^session ${this.renouncedSession}: ended, and goes on`),
    ];
    for (const lie of lies) isFound(wrong, lie);
    for (const loss of losses) isFound(lost, loss);
    const others = [
      ...wrong.filter((text) => !lies.some((lie) => lie.test(text))),
      ...lost.filter((text) => !losses.some((loss) => loss.test(text))),
    ];
    return [...broken, ...others.map((text) => `no lie: ${text}`)];
  },
};
