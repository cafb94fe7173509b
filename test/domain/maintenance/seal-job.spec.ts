import type { EventCopy } from '../../../src/domain/events/event-copy.js';
import type { EventLag } from '../../../src/domain/events/event-lag.js';
import type { SealWriter } from '../../../src/domain/audit/seals/seal-writer.js';
import { SealJob } from '../../../src/domain/maintenance/jobs.js';
import type { Environment } from '../../../src/foundation/config/environment.js';
import type { Log } from '../../../src/foundation/logging/log.js';

it('tells once that the copy of events fails, and that it works again', async () => {
  const lines: string[] = [];
  const log = { info: (line: string) => lines.push(line), warn: (line: string) => lines.push(line) };
  const copyNewSeals = jest.fn().mockRejectedValueOnce(new Error('away')).mockRejectedValueOnce(new Error('away'));
  const parts = [{ sealNewRows: () => Promise.resolve(2) }, { copyNewSeals }, { measure: jest.fn() }, {}, log];
  const job = new SealJob(...(parts as unknown as [SealWriter, EventCopy, EventLag, Environment, Log]));
  for (let runs = 0; runs < 3; runs += 1) expect(await job.sealNewRows()).toBe(2);
  expect(lines).toEqual(['event_copy_failed', 'event_copy_again']);
});
