import { sleep } from '../client.js';

const READ_ONLY_MS = 4_000;
const READING = ['validate-node', 'validate-app', 'users/me'];

export default {
  name: 'read-only',
  title: 'the database is read-only for 4 s',
  bounds: { errors: ['503'], silenceMs: 7_000, slowestMs: 3_000, backMs: 2_000 },
  async run({ world: { postgres, load, record }, quiet, healed, expect }) {
    await quiet();
    load.writesAreRefused = true;
    await set(postgres, 'on');
    await sleep(READ_ONLY_MS);
    await set(postgres, 'off');
    await sleep(100);
    healed();
    load.writesAreRefused = false;
    expect(record.countOf('503') > 0, 'nothing was refused: the database was not read-only');
    for (const kind of READING) expect(record.errorsOf(kind) === 0, `${kind}: ${record.errorsOf(kind)} errors`);
    await quiet();
  },
};

async function set(postgres, value) {
  await postgres.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await postgres.query('SELECT pg_reload_conf()');
}
