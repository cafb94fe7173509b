// What events cost: logins beside 10,000 acts a minute and the services that read them, a poll for a rare type after
// 30 days of logins, and a purge while a service does not come back.
import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { z } from 'zod';
import { LOCKS } from '../src/foundation/database/locks.js';
import { EVENT_TYPES } from '../src/domain/events/event-types.js';
import { MEASURE_LAG } from '../src/domain/events/event-lag.js';
import { buildDeletion, EVENTS } from '../src/domain/maintenance/jobs.js';
import { ApiClient, type Person } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { readCpuMicroseconds } from '../tools/process-usage.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';
import { EventReader } from './event-reader.js';
import { itemOf } from './loads.js';
import type { MeasureOptions } from './measure.js';
import type { Service, Testbed } from './testbed.js';

const READERS = fileURLToPath(new URL('./event-readers.js', import.meta.url));
const SERVICES = 50;
const ACTS_PER_MINUTE = 10_000;
const PEOPLE = 8;
const PASSWORD = 'a perfectly fine passphrase';
/** Longer than the job that copies events waits, so that it is done with the acts of the arm before. */
const SETTLE_MS = 6_000;
/** Acts that tell one event each. */
const ACTS: readonly [event: string, type: string][] = [
  ['user.registered', 'user.registered'],
  ['user.email.changed', 'user.email_changed'],
  ['user.passkey.added', 'user.credentials_changed'],
  ['session.ended', 'session.ended'],
  ['household.deleted', 'household.deleted'],
  ['household.member.added', 'household.member_added'],
  ['household.member.left', 'household.member_removed'],
  ['admin.node.issued', 'node.registered'],
  ['admin.node.updated', 'node.changed'],
  ['admin.node.revoked', 'node.revoked'],
];
const UNTOLD_ACT = 'user.login.failed';
const INSERT_ACT = {
  name: 'act',
  text: `INSERT INTO audit_events (id, time, event, actor_door, subject, count, details)
    VALUES (gen_random_uuid(), clock_timestamp(), $1, 'admin', gen_random_uuid()::text, 1, '{"reason": "bench"}')`,
};

const DAYS = 30;
/** As many as 17,000 logins a day: each has a seal of its own. */
const SECONDS_PER_LOGIN = 5;
const LOGINS = (DAYS * 86_400) / SECONDS_PER_LOGIN;
const RARE_EVENTS = 10;
const POLLS = 300;
const MAX_POLL_MS = 100;
const EVENTS_PER_PURGE = 20_000;
const PURGE_BATCH = 1_000;
const MAX_RATIO = 1.05;

/** Rows of logins, each followed by the end of its session; `$1` is their number. */
const FILL_LOGINS = `INSERT INTO audit_events (id, time, event, actor_door, subject, count, details)
  SELECT gen_random_uuid(), now() - i * interval '${SECONDS_PER_LOGIN} s', 'user.login.succeeded', 'open', gen_random_uuid()::text, 1, '{}'
  FROM generate_series(1, $1::int) i`;
/** Each like the last seal but for its number, and the last one covers all rows. */
const FILL_SEALS = `INSERT INTO audit_seals (number, content, mac)
  SELECT number + i, content::jsonb || jsonb_build_object('number', number + i, 'to', jsonb_build_object(
    'epoch', (SELECT epoch FROM audit_settings), 'snapshot', pg_current_snapshot()::text)), sha256(i::text::bytea)
  FROM (SELECT number, content FROM audit_seals ORDER BY number DESC LIMIT 1) last,
    generate_series(1, $1::int) i`;
const FILL_EVENTS = `INSERT INTO events (seal, number, id, type, time, subject, data)
  SELECT last - i, 1, gen_random_uuid(), 'session.ended', now() - i * interval '${SECONDS_PER_LOGIN} s', gen_random_uuid(),
    '{"reason": "logout", "count": 1}'
  FROM (SELECT max(number) AS last FROM audit_seals) seals, generate_series(1, $1::int - 1) i`;
const FILL_RARE = `INSERT INTO events SELECT seal, 2, gen_random_uuid(), 'user.deleted', time, gen_random_uuid(), '{}'
  FROM events WHERE number = 1 ORDER BY seal LIMIT ${RARE_EVENTS}`;
const MOVE_POSITION = 'UPDATE event_position SET seal = (SELECT max(number) FROM audit_seals)';
const FIND_CUTOFF = `SELECT time FROM events ORDER BY time OFFSET ${EVENTS_PER_PURGE} LIMIT 1`;

const cutoff = z.tuple([z.object({ time: z.date() })]);

/** A service with a database of its own, and the keys of those that read events. */
class Platform {
  private constructor(
    readonly service: Service,
    readonly databaseUrl: string,
    readonly postmasterPid: number,
    readonly client: ApiClient,
    private readonly adminKey: string,
  ) {}

  static async start(testbed: Testbed, name: string, cost: string): Promise<Platform> {
    await withClient(testbed.database.url(), (client) => client.query(`CREATE DATABASE ${name}`));
    const service = await testbed.startService({ BCRYPT_COST: cost }, name);
    const { ADMIN_API_KEY } = testbed.secrets;
    const client = new ApiClient(service.url, ADMIN_API_KEY);
    return new Platform(service, testbed.database.url(name), await testbed.readPostmasterPid(), client, ADMIN_API_KEY);
  }

  async createReader(name: string): Promise<EventReader> {
    const { app_id, app_key } = await this.client.issueAppCredential({ caller: name, target: 'auth' });
    return new EventReader({ url: this.service.url, appId: app_id, appKey: app_key, serviceName: name });
  }

  subscribe(reader: EventReader, types: readonly string[], from = 'now'): Promise<void> {
    return this.change('PUT', reader.own.serviceName, { types, from });
  }

  unsubscribe(reader: EventReader): Promise<void> {
    return this.change('DELETE', reader.own.serviceName);
  }

  private async change(method: string, service: string, body?: object): Promise<void> {
    const response = await fetch(`${this.service.url}/api/v0/admin/event-subscriptions/${service}`, {
      method,
      headers: { 'X-Admin-Key': this.adminKey, 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`The subscription of ${service} answered ${response.status}`);
  }
}

export async function measureEvents(
  testbed: Testbed,
  options: MeasureOptions,
  isWanted: (part: string) => boolean,
): Promise<void> {
  console.log(`\nNode ${process.version}`);
  for (const cost of ['12', '4']) if (isWanted(`logins ${cost}`)) await measureLogins(testbed, cost, options);
  if (!isWanted('month')) return;
  const platform = await Platform.start(testbed, 'month', '4');
  await withClient(platform.databaseUrl, async (database) => {
    await fillMonth(database);
    await measureRareType(platform, database);
    await measurePurges(platform, database, options.rounds);
  });
}

/** What happens beside the logins of an arm; `toTypes` chooses what a service reads. */
interface Arm {
  readonly name: string;
  readonly acts: readonly string[];
  readonly toTypes?: (service: number) => string[];
}

const TOLD = ACTS.map(([event]) => event);
const TYPES = ACTS.map(([, type]) => type);
const ARMS: readonly Arm[] = [
  { name: 'nothing else', acts: [] },
  { name: 'acts without events', acts: [UNTOLD_ACT] },
  {
    name: 'acts, 50 services that read two of ten types',
    acts: TOLD,
    toTypes: (service) => [0, 1].flatMap((next) => TYPES[(service * 2 + next) % TYPES.length] ?? []),
  },
  { name: 'acts, 50 services that read all of them', acts: TOLD, toTypes: () => TYPES },
];

/** One round of an arm; CPU in percent of one core, rates by minute. */
interface Measured {
  readonly latencies: readonly number[];
  readonly failed: number;
  readonly cpu: number;
  readonly postgresCpu: number;
  readonly actRate: number;
  readonly eventRate: number;
}
type Tally = Measured[];

async function measureLogins(testbed: Testbed, cost: string, { seconds, rounds }: MeasureOptions): Promise<void> {
  const platform = await Platform.start(testbed, `logins_${cost}`, cost);
  const people = Array.from({ length: PEOPLE }, (_, index) => ({
    email: `user${index}@example.org`,
    password: PASSWORD,
  }));
  for (const person of people) await platform.client.register(person);
  const readers: EventReader[] = [];
  while (readers.length < SERVICES) readers.push(await platform.createReader(`reader-${readers.length}`));
  const tallies = ARMS.map((): Tally => []);
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, arm] of ARMS.entries()) {
      process.stderr.write(`cost ${cost}, round ${round}/${rounds}: ${arm.name}\n`);
      const tally = tallies[index];
      // The first round is a warm-up.
      if (tally) await measureArm(platform, readers, people, arm, seconds, round > 0 ? tally : undefined);
    }
  }
  console.log(`\nlogins at bcrypt cost ${cost}, ${rounds} rounds of ${seconds} s in turn\n`);
  printLogins(tallies);
}

function printLogins(tallies: readonly Tally[]): void {
  const quietP99 = percentile(tallies[0]?.flatMap(({ latencies }) => latencies) ?? [], 0.99);
  printTable(
    [
      'beside',
      'logins',
      'failed',
      'p50 ms',
      'p99 ms',
      'p99 ratio',
      'CPU %',
      'PostgreSQL %',
      'acts/min',
      'events read/min',
    ],
    tallies.map((tally, index) => {
      const latencies = tally.flatMap((measured) => measured.latencies);
      const p99 = percentile(latencies, 0.99);
      const mean = (read: (measured: Measured) => number): number => averageOf(tally.map(read));
      return [
        ARMS[index]?.name ?? '',
        latencies.length,
        formatFigure(
          mean(({ failed }) => failed),
          1,
        ),
        formatFigure(percentile(latencies, 0.5), 1),
        formatFigure(p99, 1),
        formatFigure(p99 / quietP99, 3),
        formatFigure(
          mean(({ cpu }) => cpu),
          1,
        ),
        formatFigure(
          mean(({ postgresCpu }) => postgresCpu),
          1,
        ),
        formatFigure(mean(({ actRate }) => actRate)),
        formatFigure(mean(({ eventRate }) => eventRate)),
      ];
    }),
  );
  console.log(`wanted: a p99 ratio of ${MAX_RATIO} at most`);
}

const averageOf = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length;

async function measureArm(
  platform: Platform,
  readers: readonly EventReader[],
  people: readonly Person[],
  { acts, toTypes }: Arm,
  seconds: number,
  tally: Tally | undefined,
): Promise<void> {
  await sleep(SETTLE_MS);
  const reading = toTypes ? readers : [];
  for (const [index, reader] of reading.entries()) await platform.subscribe(reader, toTypes?.(index) ?? []);
  const over = new AbortController();
  const startedAt = performance.now();
  const following = followUntil(reading, over.signal);
  const acting = actUntil(platform.databaseUrl, acts, over.signal);
  // Both are awaited below, where a failure throws.
  for (const work of [following, acting]) work.catch(() => undefined);
  await sleep(SETTLE_MS);
  const measured = await logIn(platform, people, seconds).finally(() => over.abort());
  const minutes = (performance.now() - startedAt) / 60_000;
  const events = await following;
  tally?.push({ ...measured, actRate: (await acting) / minutes, eventRate: events / minutes });
  for (const reader of reading) await platform.unsubscribe(reader);
}

/** All readers poll in a process of their own until the signal. @returns the number of events */
function followUntil(readers: readonly EventReader[], signal: AbortSignal): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = fork(READERS);
    child.send(readers.map(({ own }) => own));
    // Without readers the process has ended by then.
    signal.addEventListener('abort', () => child.connected && child.send('over'));
    child.once('message', (count) => resolve(z.number().parse(count)));
    child.once('error', reject).once('exit', (code) => reject(new Error(`The readers ended with ${code}`)));
  });
}

/** Logs in one after the other. A login that a busy machine refuses is counted apart. */
async function logIn(
  { service, postmasterPid, client }: Platform,
  people: readonly Person[],
  seconds: number,
): Promise<Omit<Measured, 'actRate' | 'eventRate'>> {
  const startedAt = performance.now();
  const pids = [service.pid, postmasterPid];
  const before = pids.map(readCpuMicroseconds);
  const latencies: number[] = [];
  let failed = 0;
  for (let from = startedAt, turn = 0; from - startedAt < seconds * 1_000; turn += 1) {
    const isGood = await client.logIn(itemOf(people, turn % people.length)).then(
      () => true,
      () => false,
    );
    const now = performance.now();
    if (isGood) latencies.push(now - from);
    else failed += 1;
    from = now;
  }
  const elapsedMs = performance.now() - startedAt;
  const [cpu = NaN, postgresCpu = NaN] = pids.map(
    (pid, index) => (readCpuMicroseconds(pid) - (before[index] ?? NaN)) / (10 * elapsedMs),
  );
  return { latencies, failed, cpu, postgresCpu };
}

/** Commits acts one after the other, evenly. @returns their number */
async function actUntil(databaseUrl: string, acts: readonly string[], signal: AbortSignal): Promise<number> {
  if (acts.length === 0) return 0;
  return withClient(databaseUrl, async (client) => {
    const startedAt = performance.now();
    let count = 0;
    while (!signal.aborted) {
      await client.query({ ...INSERT_ACT, values: [acts[count % acts.length]] });
      count += 1;
      await sleep(Math.max(0, startedAt + (count * 60_000) / ACTS_PER_MINUTE - performance.now()));
    }
    return count;
  });
}

/** Seals and events are written while the job that makes them is locked out. */
async function fillMonth(database: pg.Client): Promise<void> {
  const locks = [LOCKS.auditSeals, LOCKS.events];
  for (const lock of locks) await database.query('SELECT pg_advisory_lock($1)', [lock]);
  for (const statement of [FILL_LOGINS, FILL_SEALS, FILL_EVENTS]) {
    process.stderr.write(`${DAYS} days: ${statement.slice(0, 30)}…\n`);
    await database.query(statement, [LOGINS]);
  }
  for (const statement of [FILL_RARE, MOVE_POSITION, 'VACUUM ANALYZE', 'CHECKPOINT']) await database.query(statement);
  for (const lock of locks) await database.query('SELECT pg_advisory_unlock($1)', [lock]);
}

async function measureRareType(platform: Platform, database: pg.Client): Promise<void> {
  const rare = await platform.createReader('rare');
  const all = await platform.createReader('all');
  await platform.subscribe(rare, ['user.deleted'], 'beginning');
  await platform.subscribe(all, EVENT_TYPES, 'beginning');
  const cursors = await rare.poll({});
  if (cursors.length !== RARE_EVENTS) throw new Error(`${cursors.length} of ${RARE_EVENTS} rare events were read`);
  const rows = [
    await time('a poll that finds the rare events', POLLS, () => rare.poll({})),
    await time('a poll that acknowledges a deletion', RARE_EVENTS, (turn) => rare.poll({ after: cursors[turn] })),
    await time('a poll that finds none', POLLS, () => rare.poll({})),
    await time('a poll of all types, which finds 250', POLLS, () => all.poll({})),
    await time('the lag of both services', POLLS, () => database.query(MEASURE_LAG)),
  ];
  console.log(`\nafter ${DAYS} days of logins, ${LOGINS} in all\n`);
  printTable(['', 'n', 'p50 ms', 'p99 ms', 'max ms'], rows);
  console.log(`wanted: ${MAX_POLL_MS} ms at most`);
  for (const reader of [rare, all]) await platform.unsubscribe(reader);
}

async function time(
  name: string,
  count: number,
  work: (turn: number) => Promise<unknown>,
): Promise<(string | number)[]> {
  const times: number[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    const startedAt = performance.now();
    await work(turn);
    times.push(performance.now() - startedAt);
  }
  const figures = [percentile(times, 0.5), percentile(times, 0.99), Math.max(...times)];
  return [name, count, ...figures.map((figure) => formatFigure(figure, 1))];
}

/** In pairs: without a service, and with one that has read nothing. */
async function measurePurges(platform: Platform, database: pg.Client, rounds: number): Promise<void> {
  const absent = await platform.createReader('absent');
  const purge = async (): Promise<number> => {
    const before = cutoff.parse((await database.query(FIND_CUTOFF)).rows)[0].time;
    const startedAt = performance.now();
    for (let deleted = PURGE_BATCH; deleted === PURGE_BATCH;)
      deleted = (await database.query(buildDeletion(EVENTS), [before, PURGE_BATCH])).rowCount ?? 0;
    return performance.now() - startedAt;
  };
  await purge();
  const times: { without: number[]; with: number[] } = { without: [], with: [] };
  for (let round = 0; round < rounds; round += 1) {
    const measureWithout = async () => times.without.push(await purge());
    const measureWith = async (): Promise<void> => {
      await platform.subscribe(absent, EVENT_TYPES, 'beginning');
      times.with.push(await purge());
      await platform.unsubscribe(absent);
    };
    // Each comes first in turn, because a later purge passes over more dead rows.
    for (const measure of round % 2 === 0 ? [measureWithout, measureWith] : [measureWith, measureWithout])
      await measure();
  }
  const [without, with_] = [times.without, times.with].map((all) => percentile(all, 0.5));
  console.log(`\na purge of ${EVENTS_PER_PURGE} events, median of ${rounds} pairs\n`);
  printTable(
    ['without a service, ms', 'with one that does not come back, ms', 'ratio'],
    [[formatFigure(without), formatFigure(with_), formatFigure((with_ ?? NaN) / (without ?? NaN), 3)]],
  );
}
