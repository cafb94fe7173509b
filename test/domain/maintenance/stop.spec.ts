import { setImmediate as nextRound } from 'node:timers/promises';
import {
  Maintenance,
  type AuditJob,
  type KeyMaterialJob,
  type PurgeJob,
} from '../../../src/domain/maintenance/jobs.js';
import type { Environment } from '../../../src/foundation/config/environment.js';
import { eventually } from '../../../tools/eventually.js';

it('waits at the stop for the jobs that run, because the database connections close next', async () => {
  const order: string[] = [];
  let finish = (): void => undefined;
  const work = new Promise<void>((resolve) => (finish = resolve));
  const purgeExpired = jest.fn(() => work.then(() => order.push('purged')));
  const idle = { maintainAuditLog: () => Promise.resolve(), renewKeyMaterial: () => Promise.resolve() };
  const parts = [{ purgeExpired }, idle, idle, { purgeIntervalMinutes: 1 / 60_000 }];
  const maintenance = new Maintenance(...(parts as unknown as [PurgeJob, AuditJob, KeyMaterialJob, Environment]));
  maintenance.onModuleInit();
  await eventually('the jobs run', () => purgeExpired.mock.calls.length > 0);
  const stop = maintenance.onApplicationShutdown().then(() => order.push('stopped'));
  for (let round = 0; round < 10; round += 1) await nextRound();
  finish();
  await stop;
  expect([order[0], order.at(-1)]).toEqual(['purged', 'stopped']);
});
