import { randomUUID } from 'node:crypto';
import { kinds } from './actors/key-kinds.js';
import { Life } from './ledger.js';

/** Nothing is broken but the ledger: lies are entered into it, and each of them must come out as a wrong verdict or a lost write. */
export const selfTest = {
  name: 'self-test',
  title: 'no fault, but lies in the ledger: they are found',
  bounds: {},
  async run({ world, quiet }) {
    await quiet();
    const { load, ledger, record } = world;
    if (record.wrong.length > 0) throw new Error(`Wrong before any lie: ${record.wrong[0]}`);
    const [good, renounced] = load.kept.credentials;
    renounced.key.life.ending();
    renounced.key.life.ended();
    const [session] = load.kept.sessions;
    session.life.ending();
    session.life.ended();
    const grave = ledger.graves[0];
    grave.key = { ...grave.key, name: 'a risen key', life: new Life() };
    ledger.credentials.push({ ...good, id: randomUUID(), kind: kinds.node, key: { ...good.key, name: 'a key nobody minted' } });
    await quiet();
  },
  judge: ({ wrong, lost }) => {
    const found = (list, words) => (list.some((text) => text.includes(words)) ? [] : [`a lie was not found: ${words}`]);
    return [
      ...found(wrong, 'after its end was acknowledged'),
      ...found(wrong, 'users/me of session'),
      ...found(wrong, 'a risen key: refused, and nobody had asked for its end'),
      ...found(lost, 'a key nobody minted: minted, and not there'),
      ...found(lost, 'ended, and goes on'),
    ];
  },
};
