import { toSettings } from '../src/options.js';
import { VerifierCore } from '../src/verifier-core.js';
import { FakeService } from './fake-service.js';
import { names, readEventScenarios, type EventScenario } from './scenarios.js';
import { Simulation } from './simulation.js';

const POLL_MS = 20_000;

/** A consumer that begins to read again whenever it failed. */
async function play({ answers, fails, until_ms: untilMs }: EventScenario) {
  const simulation = new Simulation();
  const service = new FakeService(simulation, { events: answers });
  const settings = toSettings({
    url: 'http://auth.test',
    appId: names.own_app_id!,
    appKey: names.own_app_key!,
    serviceName: 'recipes',
    maxEntries: 1,
    logger: { warn: () => undefined },
  });
  const verifier = new VerifierCore(settings, simulation.createRuntime(service));
  const told: string[] = [];
  const failures = { ...fails };
  const handle = (name: string): void => {
    told.push(name);
    failures[name] = (failures[name] ?? 0) - 1;
    if (failures[name] >= 0) throw new Error('the consumer failed');
  };
  let isOver = false;
  const follow = async (): Promise<void> => {
    while (!isOver) {
      try {
        for await (const { id } of verifier.events({ onReset: () => handle('reset') })) handle(id);
      } catch {
        // The next iterator goes on.
      }
    }
  };
  const following = follow();
  await simulation.run(untilMs);
  isOver = true;
  verifier.close();
  // Until the poll in flight is answered.
  await simulation.run(untilMs + POLL_MS);
  await following;
  const polls = service.requests
    .filter(({ path }) => path === 'events')
    .map(({ atMs, request }) => ({ atMs, after: (JSON.parse(request.body ?? '') as { after?: string }).after }));
  return { told, polls };
}

describe('events', () => {
  it.each(readEventScenarios())('$name', async (scenario) => {
    const { told, polls } = await play(scenario);
    expect(told).toEqual(scenario.told);
    expect(polls.map(({ after }) => after)).toEqual(scenario.polls.map(({ after }) => after));
    for (const [index, { at }] of scenario.polls.entries()) {
      expect(polls[index]?.atMs).toBeGreaterThanOrEqual(at[0]);
      expect(polls[index]?.atMs).toBeLessThanOrEqual(at[1]);
    }
  });
});
