import { EventWaits } from '../../../src/domain/events/event-waits.js';
import type { Database } from '../../../src/foundation/database/database.js';

it('answers the polls that have events in turn, and lets the others wait', async () => {
  const rows = jest.fn().mockResolvedValue([{ copied: 2, type: 'user.deleted' }]);
  const waits = new EventWaits({ rows } as unknown as Database);
  const answers = ['recipes', 'speech', 'ocr'].map((service) => waits.wait(service, ['user.deleted'], 1, 20_000));
  const other = waits.wait('logs', ['household.created'], 1, 20_000);
  expect(await answers[0]).toBe(true);
  expect(waits.count).toBe(3);
  expect(await Promise.all(answers)).toEqual([true, true, true]);
  expect(waits.count).toBe(1);
  waits.stop();
  expect(await other).toBe(false);
});
