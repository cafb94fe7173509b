import type { EventsOptions, PlatformEvent } from '../src/platform-event.js';
import { toSettings } from '../src/options.js';
import { ConnectionError, type ServiceAnswer, type ServiceRequest } from '../src/transport.js';
import { VerifierCore } from '../src/verifier-core.js';
import { Verifier } from '../src/verifier.js';
import { Simulation } from './simulation.js';

const NEVER: EventsOptions = {
  onReset: () => {
    throw new Error('There was no reset');
  },
};
const CHANGES = { cursor: '1', reset: false, lease_ms: 600, fresh_for_ms: 500, changes: [] };

interface Poll {
  readonly after?: string;
  readonly consumer: string;
  readonly wait_seconds: number;
  /** By the simulated clock. */
  readonly atMs: number;
}

const tell = (cursor: string): object => ({
  id: `${cursor}:user.deleted`,
  type: 'user.deleted',
  time: '2026-01-01T00:00:00.000Z',
  subject: { kind: 'user', id: `user-${cursor}` },
  data: {},
  cursor,
});
const batch = (...cursors: string[]): object => ({ events: cursors.map(tell), more: false, reset: false });
const problem = (status: number, code: string, headers = {}): ServiceAnswer => ({
  status,
  headers,
  body: JSON.stringify({ code }),
});

/** Answers polls for events with what a test lists, then waits as the service does. */
class Reading {
  readonly simulation = new Simulation();
  readonly polls: Poll[] = [];
  readonly requests: ServiceRequest[] = [];
  readonly logged: string[] = [];
  readonly verifier: VerifierCore;
  /** Breaks the poll in flight. */
  private breakPoll = (): void => undefined;

  constructor(private readonly answers: (object | ServiceAnswer | ConnectionError)[]) {
    const settings = toSettings({
      url: 'http://auth.test',
      appId: '01985f4e-7c3a-7b52-9d1e-000000000c01',
      appKey: 'pa_app_own',
      serviceName: 'recipes',
      maxEntries: 1,
      logger: { warn: (event) => void this.logged.push(event) },
    });
    const transport = { send: (request: ServiceRequest) => this.send(request), close: () => this.breakPoll() };
    this.verifier = new VerifierCore(settings, this.simulation.createRuntime(transport));
  }

  /** Iterates, and ends at the event that `isBad` names with an error, as a consumer does that fails. */
  async follow(handled: string[], isBad: (id: string) => boolean = () => false, options = NEVER): Promise<void> {
    for await (const { subject } of this.verifier.events(options)) {
      if (isBad(subject.id)) throw new Error('the consumer failed');
      handled.push(subject.id);
    }
  }

  private send(request: ServiceRequest): Promise<ServiceAnswer> {
    if (request.url.endsWith('/changes')) return Promise.resolve(toAnswer(CHANGES));
    this.requests.push(request);
    const poll = JSON.parse(request.body ?? '') as Omit<Poll, 'atMs'>;
    this.polls.push({ ...poll, atMs: this.simulation.nowMs });
    const answer = this.answers.shift();
    return new Promise((resolve, reject) => {
      if (answer instanceof ConnectionError) {
        reject(answer);
        return;
      }
      this.breakPoll = () => reject(new ConnectionError('closed'));
      const waitMs = answer ? 1 : poll.wait_seconds * 1_000;
      this.simulation.at(this.simulation.nowMs + waitMs, () => resolve(toAnswer(answer ?? batch())));
    });
  }
}

function toAnswer(answer: object): ServiceAnswer {
  return 'status' in answer ? (answer as ServiceAnswer) : { status: 200, headers: {}, body: JSON.stringify(answer) };
}

describe('the events of a verifier', () => {
  it('are delivered in order, and acknowledged when the next one is asked for', async () => {
    const reading = new Reading([batch('1', '2')]);
    const iterator = reading.verifier.events(NEVER);
    const events: PlatformEvent[] = [];
    const take = () => iterator.next().then(({ value }) => events.push(value as PlatformEvent));
    void take();
    await reading.simulation.run(1_000);
    void take();
    await reading.simulation.run(2_000);
    expect(events.map(({ subject }) => subject.id)).toEqual(['user-1', 'user-2']);
    expect(events[0]?.time).toEqual(new Date('2026-01-01T00:00:00Z'));
    expect(reading.polls.map(({ after }) => after)).toEqual([undefined]);
    void take();
    await reading.simulation.run(3_000);
    expect(reading.polls.map(({ after }) => after)).toEqual([undefined, '2']);
    expect(reading.requests[0]).toMatchObject({ presentsOwnKey: true, timeoutMs: 30_000 });
    expect(reading.requests[0]?.isPoll).toBeUndefined();
  });

  it('are polled for while a consumer is slow, so that it keeps the subscription, and the rest comes from that answer', async () => {
    const reading = new Reading([batch('1', '2'), batch('2')]);
    const iterator = reading.verifier.events(NEVER);
    void iterator.next();
    await reading.simulation.run(11_000);
    const second = iterator.next();
    await reading.simulation.run(12_000);
    expect(await second).toMatchObject({ value: { subject: { id: 'user-2' } } });
    expect(reading.polls.map(({ after }) => after)).toEqual([undefined, '1']);
  });

  it('come again after the consumer failed, under the same name, after 1 s that doubles to 60 s and begins anew', async () => {
    const again = Array.from({ length: 8 }, () => batch('2'));
    const reading = new Reading([batch('1', '2'), ...again, batch('3')]);
    const handled: string[] = [];
    const run = async (isBad: (id: string) => boolean): Promise<void> => {
      const failed = reading.follow(handled, isBad).catch(() => undefined);
      await reading.simulation.run(reading.simulation.nowMs + 61_000);
      await failed;
    };
    for (let i = 0; i < 8; i += 1) await run((id) => id === 'user-2');
    expect(handled).toEqual(['user-1']);
    const starts = reading.polls.slice(1).map(({ atMs }) => atMs);
    // Each iteration begins 61 s after the one before, and polls when its pause is over.
    expect(starts.map((atMs, i) => atMs - 61_000 * (i + 1))).toEqual([1, 2, 4, 8, 16, 32, 60].map((s) => s * 1_000));
    expect(reading.polls.slice(1).map(({ after }) => after)).toEqual(Array(7).fill('1'));
    expect(new Set(reading.polls.map(({ consumer }) => consumer)).size).toBe(1);
    await run((id) => id === 'user-3');
    expect(handled).toEqual(['user-1', 'user-2']);
  });

  it('that a later iterator took over are not acknowledged by the earlier one', async () => {
    const reading = new Reading([batch('1'), batch('1')]);
    const earlier = reading.verifier.events(NEVER);
    void earlier.next();
    await reading.simulation.run(1_000);
    const later = reading.verifier.events(NEVER).next();
    await reading.simulation.run(1_500);
    const refused = expect(earlier.next()).rejects.toThrow('A later iterator');
    await reading.simulation.run(5_000);
    await refused;
    expect(await later).toMatchObject({ value: { subject: { id: 'user-1' } } });
    expect(reading.polls.map(({ after }) => after)).toEqual([undefined, undefined]);
  });

  it('are compared with after a reset, whose cursor is taken only when that succeeded', async () => {
    const reset = { events: [], more: false, reset: true, cursor: 'r' };
    const reading = new Reading([reset, reset, batch('1')]);
    let calls = 0;
    const onReset = async (): Promise<void> => {
      calls += 1;
      await Promise.resolve();
      if (calls === 1) throw new Error('the comparison failed');
    };
    const handled: string[] = [];
    const failed = expect(reading.follow(handled, undefined, { onReset })).rejects.toThrow('the comparison failed');
    await reading.simulation.run(500);
    await failed;
    const following = reading.follow(handled, undefined, { onReset });
    await reading.simulation.run(5_000);
    expect([calls, handled]).toEqual([2, ['user-1']]);
    expect(reading.polls.slice(0, 3).map(({ after }) => after)).toEqual([undefined, undefined, 'r']);
    reading.verifier.close();
    await following;
  });

  it('stand by for as long as the service says while another process reads, and go on at the stored position', async () => {
    const busy = problem(409, 'events_busy', { 'retry-after': '17' });
    const reading = new Reading([batch('1'), busy, batch('5')]);
    const handled: string[] = [];
    const following = reading.follow(handled);
    await reading.simulation.run(17_500);
    expect(handled).toEqual(['user-1', 'user-5']);
    expect(reading.polls.slice(0, 3).map(({ after }) => after)).toEqual([undefined, '1', undefined]);
    expect(reading.polls[2]!.atMs - reading.polls[1]!.atMs).toBeGreaterThanOrEqual(17_000);
    expect(reading.logged).toEqual([]);
    reading.verifier.close();
    await following;
  });

  it.each<[string, () => object]>([
    ['the service is unavailable', () => problem(503, 'unavailable')],
    ['it is not reachable', () => new ConnectionError('refused')],
    ['it answers with something else', () => ({ events: [{}], more: false, reset: false })],
    ['the key is refused', () => problem(401, 'invalid_app_credentials')],
  ])('wait longer and longer while %s, and tell it once', async (_case, create) => {
    const reading = new Reading([...Array.from({ length: 10 }, create), batch('1')]);
    const handled: string[] = [];
    const following = reading.follow(handled);
    await reading.simulation.run(330_000);
    expect(handled).toEqual(['user-1']);
    const pauses = reading.polls.slice(1, 11).map(({ atMs }, i) => atMs - reading.polls[i]!.atMs);
    pauses.forEach((pauseMs, i) => {
      const longest = Math.min(60_000, 1_000 * 2 ** i);
      expect(pauseMs).toBeGreaterThanOrEqual(0.8 * longest);
      expect(pauseMs).toBeLessThanOrEqual(longest + 1);
    });
    const told = reading.logged.filter((event) => event !== 'verifier_misconfigured');
    expect(told).toEqual(['verifier_events_not_answered', 'verifier_events_answered_again']);
    reading.verifier.close();
    await following;
  });

  it('need a subscription, and tell what to write into the map', async () => {
    const reading = new Reading([problem(403, 'not_subscribed')]);
    const refused = expect(reading.follow([])).rejects.toThrow(
      'recipes: { events: [user.deleted] }, and run platform-auth apply',
    );
    await reading.simulation.run(1_000);
    await refused;
  });

  it('need onReset', () => {
    const { verifier } = new Reading([]);
    expect(() => verifier.events({} as EventsOptions)).toThrow('onReset must be a function');
  });

  it('do not poll without pause when the service answers early with nothing', async () => {
    const reading = new Reading([batch(), batch(), batch('1')]);
    const handled: string[] = [];
    const following = reading.follow(handled);
    await reading.simulation.run(2_500);
    expect(handled).toEqual(['user-1']);
    expect(reading.polls[2]!.atMs).toBeGreaterThanOrEqual(2_000);
    reading.verifier.close();
    await following;
  });
});

describe('the events of a verifier for tests', () => {
  it('are delivered, also a reset, and tell when they are acknowledged', async () => {
    const auth = Verifier.forTests({ serviceName: 'recipes' });
    const handled: string[] = [];
    const follow = async (): Promise<void> => {
      for await (const { type, subject, data } of auth.events({ onReset: () => void handled.push('reset') }))
        handled.push(`${type} ${subject.id} ${JSON.stringify(data)}`);
    };
    const following = follow();
    const deleted = auth.deliver('user.deleted', { kind: 'user', id: 'alice' });
    const reset = auth.deliverReset();
    await auth.deliver('session.ended', { kind: 'user', id: 'bob' }, { count: 2 });
    await Promise.all([deleted, reset]);
    expect(handled).toEqual(['user.deleted alice {}', 'reset', 'session.ended bob {"count":2}']);
    auth.close();
    await following;
  });
});
