import { EventWaits } from '../../../src/domain/events/event-waits.js';
import type { Database } from '../../../src/foundation/database/database.js';

const SERVICES = 50;

describe('polls that wait', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('are answered in turn, and all of them before the next events are copied', async () => {
    const rows = jest.fn().mockResolvedValue([{ copied: 2, type: 'user.deleted' }]);
    const waits = new EventWaits({ rows } as unknown as Database);
    const answers = Array.from({ length: SERVICES }, (_, index) =>
      waits.wait(`service-${index}`, ['user.deleted'], 1, 20_000),
    );
    const other = waits.wait('other', ['household.created'], 1, 20_000);
    await jest.advanceTimersByTimeAsync(1_000);
    expect(waits.count).toBeGreaterThan(SERVICES / 2);
    await jest.advanceTimersByTimeAsync(4_000);
    expect(await Promise.all(answers)).toEqual(Array(SERVICES).fill(true));
    expect(waits.count).toBe(1);
    waits.stop();
    expect(await other).toBe(false);
  });
});
