import { setTimeout as sleep } from 'node:timers/promises';
import type { PostgresServer } from '../../tools/postgres-server.js';
import type { HotRoute } from '../record.js';
import type { Scenario } from '../stage.js';

const READ_ONLY_MS = 4_000;
const READING: readonly HotRoute[] = ['validate-node', 'validate-app', 'users/me'];

export const readOnly: Scenario = {
  name: 'read-only',
  title: 'the database is read-only for 4 s',
  bounds: { errors: ['503'], silenceMs: 7_000, slowestMs: 3_000, backMs: 2_000 },
  async run(stage) {
    const { postgres } = stage.world;
    const load = await stage.begin();
    await stage.rest();
    load.writesAreRefused = true;
    await setReadOnly(postgres, 'on');
    await sleep(READ_ONLY_MS);
    await setReadOnly(postgres, 'off');
    await sleep(100);
    stage.markHealed();
    load.writesAreRefused = false;
    const { record } = load;
    stage.expect(record.countLabel('503') > 0, 'nothing was refused: the database was not read-only');
    for (const route of READING)
      stage.expect(record.countErrors(route) === 0, `${route}: ${record.countErrors(route)} errors`);
    await stage.rest();
  },
};

async function setReadOnly(postgres: PostgresServer, value: 'on' | 'off'): Promise<void> {
  await postgres.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await postgres.query('SELECT pg_reload_conf()');
}
