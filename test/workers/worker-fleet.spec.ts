import { join } from 'node:path';
import { parseEnvironment } from '../../src/config/environment.js';
import { backOffMs, WorkerFleet } from '../../src/workers/worker-fleet.js';
import { eventually } from '../support/eventually.js';
import { isAlive } from '../support/first-run-folder.js';
import { TestLog, VARIABLES } from '../support/test-app.js';

const FILE = join(import.meta.dirname, '../support/fleet-worker.js');
const PATIENCE_MS = 10_000;

describe('the workers of one start', () => {
  let log: TestLog;
  let fleet: WorkerFleet;
  let pids: number[];

  const fleetOf = (size: number, variables: Record<string, string> = {}): void => {
    log = new TestLog(parseEnvironment({ ...VARIABLES, DATABASE_URL: 'postgresql://nobody@127.0.0.1:1/none' }));
    fleet = new WorkerFleet({ file: FILE, servers: 1, variables }, size, log);
    pids = [];
    fleet.onFork = ({ process: { pid } }) => void pids.push(pid!);
  };

  afterEach(() => fleet.stop(PATIENCE_MS));

  it('none start when one cannot, and its reason is told once', async () => {
    fleetOf(3, { CANNOT: 'The table of the house is missing.' });
    await expect(fleet.start()).rejects.toThrow(/^The table of the house is missing\.$/);
    expect(pids).toHaveLength(3);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(log.lines).toEqual([]);
  });

  it('one that ends again and again is waited with, longer each time', async () => {
    fleetOf(1);
    await fleet.start();
    for (const ends of [1, 2, 3]) {
      process.kill(pids.at(-1)!, 'SIGKILL');
      await eventually('another listens', () => fleet.restarts === ends && fleet.listening.length === 1);
    }
    expect(log.lines.map(({ message, delay_ms }) => [message, delay_ms])).toEqual([
      ['worker_replaced', 0],
      ['worker_replaced', 500],
      ['worker_replaced', 1_000],
    ]);
    expect([0, 1, 2, 3, 4, 8, 9, 100].map(backOffMs)).toEqual([0, 0, 500, 1_000, 2_000, 30_000, 30_000, 30_000]);
  });

  it('none is replaced during a stop, also when one was about to be', async () => {
    fleetOf(2);
    await fleet.start();
    process.kill(pids[0]!, 'SIGKILL');
    await eventually('it is replaced', () => fleet.restarts === 1 && fleet.listening.length === 2);
    process.kill(pids.at(-1)!, 'SIGKILL');
    await eventually('it is missed', () => log.lines.length === 2);
    await fleet.stop(PATIENCE_MS);
    expect(fleet.restarts).toBe(1);
    expect(pids.filter(isAlive)).toEqual([]);
  });
});
