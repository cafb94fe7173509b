import { parseEnvironment } from '../../src/foundation/config/environment.js';
import { computeBackoffMs, WorkerFleet } from '../../src/bootstrap/workers.js';
import { WorkerStartError } from '../../src/bootstrap/start-report.js';
import { eventually } from '../../tools/eventually.js';
import { isAlive } from '../support/first-run-folder.js';
import { VARIABLES } from '../support/settings.js';
import { TestLog } from '../support/test-log.js';
import { fromRoot } from '../support/from-root.js';

const FILE = fromRoot('dist/test/support/programs/fleet-worker.js');
const DEADLINE_MS = 10_000;

describe('WorkerFleet', () => {
  let log: TestLog;
  let fleet: WorkerFleet;

  const createFleet = (size: number, variables: Record<string, string> = {}): void => {
    log = new TestLog(parseEnvironment({ ...VARIABLES, DATABASE_URL: 'postgresql://none@127.0.0.1:1/none' }));
    fleet = new WorkerFleet({ file: FILE, servers: 1, variables }, size, log);
  };

  afterEach(() => fleet.stop(DEADLINE_MS));

  it('fails the start without forking a second worker when the first cannot start', async () => {
    createFleet(3, { CANNOT: 'The table is missing.' });
    const start = fleet.start();
    const { pids } = fleet;
    await expect(start).rejects.toThrow(WorkerStartError);
    expect(pids).toHaveLength(1);
    expect(fleet.pids).toEqual([]);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(log.lines).toEqual([]);
  });

  it('backs off when a worker keeps crashing', async () => {
    createFleet(1);
    await fleet.start();
    for (const crashes of [1, 2, 3]) {
      process.kill(fleet.pids[0]!, 'SIGKILL');
      await eventually('another listens', () => fleet.restarts === crashes && fleet.listening === 1);
    }
    expect(log.lines.map(({ message, delay_ms }) => [message, delay_ms])).toEqual([
      ['worker_replaced', 0],
      ['worker_replaced', 500],
      ['worker_replaced', 1_000],
    ]);
    expect([0, 1, 2, 3, 4, 8, 9, 100].map(computeBackoffMs)).toEqual([0, 0, 500, 1_000, 2_000, 30_000, 30_000, 30_000]);
  });

  it('replaces no worker during a shutdown, also when a replacement was scheduled', async () => {
    createFleet(2);
    await fleet.start();
    const [victim, other] = fleet.pids;
    process.kill(victim!, 'SIGKILL');
    await eventually('it is replaced', () => fleet.restarts === 1 && fleet.listening === 2);
    const replacement = fleet.pids.find((pid) => pid !== other);
    process.kill(replacement!, 'SIGKILL');
    await eventually('its exit is noticed', () => log.lines.length === 2);
    await fleet.stop(DEADLINE_MS);
    expect(fleet.restarts).toBe(1);
    expect([victim!, other!, replacement!].filter(isAlive)).toEqual([]);
  });
});
