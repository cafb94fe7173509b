import { EventWaits } from '../../../src/domain/events/event-waits.js';
import type { Database } from '../../../src/foundation/database/database.js';

it('answers the polls that have events in turn, and lets the others wait', async () => {
  const rows = jest.fn().mockResolvedValue([{ copied: 2, type: 'user.deleted' }]);
  const waits = new EventWaits({ rows } as unknown as Database);
  const answers = ['recipes', 'speech', 'ocr'].map((service) => waits.wait(service, ['user.deleted'], 1, 20_000));
  const other = waits.wait('logs', ['household.created'], 1, 20_000);
  for (const [index, answer] of answers.entries()) {
    expect(await answer).toBe(true);
    expect(waits.count).toBe(answers.length - index);
  }
  waits.onApplicationShutdown();
  expect(await other).toBe(false);
});
