import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { EventCopy } from '../../../src/domain/events/event-copy.js';
import type { EventLag } from '../../../src/domain/events/event-lag.js';
import type { SealWriter } from '../../../src/domain/audit/seals/seal-writer.js';
import { SealJob } from '../../../src/domain/maintenance/jobs.js';
import type { Environment } from '../../../src/foundation/config/environment.js';
import type { Log } from '../../../src/foundation/logging/log.js';
import { eventually } from '../../../tools/eventually.js';

it('tells once that the copy of events fails, and that it works again', async () => {
  const lines: string[] = [];
  const log = { info: (line: string) => lines.push(line), warn: (line: string) => lines.push(line) };
  const copyNewSeals = jest.fn().mockRejectedValueOnce(new Error('away')).mockRejectedValueOnce(new Error('away'));
  const parts = [{}, { copyNewSeals }, { measure: jest.fn() }, {}, log];
  const job = new SealJob(...(parts as unknown as [SealWriter, EventCopy, EventLag, Environment, Log]));
  for (let runs = 0; runs < 3; runs += 1) await job.copyNewEvents();
  expect(lines).toEqual(['event_copy_failed', 'event_copy_again']);
});

it('seals and copies events by turns, so that no login competes with both', async () => {
  const steps: string[] = [];
  const sealNewRows = () => {
    steps.push('seal');
    void endOfTurn().then(() => steps.push('pause'));
    return Promise.resolve(0);
  };
  const copyNewSeals = () => Promise.resolve(steps.push('copy'));
  const parts = [{ sealNewRows }, { copyNewSeals }, { measure: jest.fn() }, { auditSealIntervalSeconds: 0.02 }, {}];
  const job = new SealJob(...(parts as unknown as [SealWriter, EventCopy, EventLag, Environment, Log]));
  await job.onModuleInit();
  await eventually('it has sealed and copied twice', () => steps.length >= 9);
  await job.onApplicationShutdown();
  expect(steps.slice(0, 9)).toEqual(['seal', 'copy', 'pause', 'seal', 'pause', 'copy', 'seal', 'pause', 'copy']);
});
