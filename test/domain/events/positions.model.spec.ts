import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type { Client } from 'pg';
import { ORIGIN } from '../../../src/domain/events/event-cursor.js';
import { openTransaction } from '../../support/row-lock.js';
import { UNLEASED } from '../../support/settings.js';
import { useApp } from '../../support/use-app.js';
import { withWrappedQueries, type Query } from '../../support/wrapped-queries.js';
import { insertion } from '../audit/auditor.js';
import { Subscriber, tell, type Told } from './subscriber.js';

/** For a longer search: MODEL_RUNS=2000. */
const RUNS = Number(process.env.MODEL_RUNS ?? 20);
const MAX_FINDING_RUNS = 300;
const MAX_DRAINING_POLLS = 60;

const polls = fc.record({
  step: fc.constant('poll' as const),
  after: fc.constantFrom('last', 'nothing', 'earlier'),
  limit: fc.integer({ min: 1, max: 3 }),
  handled: fc.nat(3),
  choice: fc.nat(20),
});
/** What happens in a history. Numbers choose among what there is at that moment. */
const steps = fc.oneof(
  { weight: 4, arbitrary: fc.record({ step: fc.constant('commit' as const) }) },
  { weight: 2, arbitrary: fc.record({ step: fc.constantFrom('begin' as const, 'end' as const, 'undo' as const) }) },
  { weight: 4, arbitrary: fc.record({ step: fc.constant('copy' as const) }) },
  { weight: 8, arbitrary: polls },
  {
    weight: 2,
    arbitrary: fc.record({ step: fc.constantFrom('rewind' as const, 'skip' as const, 'restore' as const) }),
  },
  { weight: 2, arbitrary: fc.record({ step: fc.constant('purge' as const), choice: fc.nat(20) }) },
);
type Step = typeof steps extends fc.Arbitrary<infer Value> ? Value : never;
const histories = fc.array(steps, { minLength: 8, maxLength: 30, size: 'max' });
/** Begin with an act that commits after a later one was copied, and perhaps handled. */
const lateCommits = fc
  .tuple(fc.array(polls, { maxLength: 2 }), fc.array(polls, { minLength: 2, maxLength: 6 }))
  .map(([early, late]): Step[] => [
    { step: 'begin' },
    { step: 'commit' },
    { step: 'copy' },
    ...early,
    { step: 'end' },
    { step: 'copy' },
    ...late,
  ]);
/** Begin with a rewind after events were handled. */
const rewinds = fc
  .array(polls, { minLength: 1, maxLength: 6 })
  .map((tail): Step[] => [
    { step: 'commit' },
    { step: 'copy' },
    { step: 'poll', after: 'nothing', limit: 3, handled: 3, choice: 0 },
    { step: 'rewind' },
    ...tail,
  ]);
const all = fc.oneof({ weight: 4, arbitrary: histories }, lateCommits, rewinds);

const app = useApp({ variables: UNLEASED });

/** A service that acknowledges only what it has handled, and the promise by which its answers are judged. */
class World {
  readonly violations: string[] = [];
  handledEvents = 0;
  /** Subjects in the order in which they were copied. */
  private readonly copied: string[] = [];
  private readonly uncopied: string[] = [];
  /** What must still be told, or covered by a reset. */
  private readonly untold = new Set<string>();
  private readonly known = new Set<string>();
  private readonly purged = new Set<string>();
  /** What can only be covered by a reset. */
  private readonly lost = new Set<string>();
  private owesReset = false;
  private readonly open: { client: Client; subject: string }[] = [];
  private readonly cursors: string[] = [];
  /** How many events were copied when a cursor of a reset was made. */
  private readonly resets = new Map<string, number>();

  private constructor(private readonly subscriber: Subscriber) {}

  static async run(history: readonly Step[]): Promise<World> {
    // Of the histories before, which a rewind would tell.
    await app.database.query('DELETE FROM events');
    const world = new World(await Subscriber.to(app, ['user.deleted']));
    try {
      for (const step of history) await world.play(step);
      await world.drain();
    } finally {
      for (const { client } of world.open) await client.end();
    }
    return world;
  }

  private async play(step: Step): Promise<void> {
    switch (step.step) {
      case 'commit':
        return this.commit();
      case 'begin':
        return this.begin();
      case 'end':
      case 'undo':
        return this.end(step.step);
      case 'copy':
        return this.copy();
      case 'poll':
        await this.poll(this.choose(step.after, step.choice), step.limit, step.handled);
        return;
      case 'purge':
        return this.purge(step.choice);
      case 'restore':
        return this.restore();
      case 'rewind':
        await app.admin.post(`${this.subscriber.path}/rewind`, {}).expect(204);
        this.expectAgain();
        return;
      case 'skip':
        await app.admin.post(`${this.subscriber.path}/skip`, { all: true }).expect(204);
        this.cover(this.copied.length);
        return;
    }
  }

  private async commit(): Promise<void> {
    const subject = randomUUID();
    await app.database.query(insertDeletion(subject));
    this.add(subject);
  }

  private async begin(): Promise<void> {
    const subject = randomUUID();
    this.open.push({ subject, client: await openTransaction(app.database, insertDeletion(subject)) });
  }

  private async end(how: 'end' | 'undo'): Promise<void> {
    const ended = this.open.shift();
    if (!ended) return;
    if (how === 'end') {
      await ended.client.query('COMMIT');
      this.add(ended.subject);
    }
    await ended.client.end();
  }

  private add(subject: string): void {
    this.known.add(subject);
    this.untold.add(subject);
    this.uncopied.push(subject);
  }

  private async copy(): Promise<void> {
    await tell(app);
    const order = await app.database.query<{ subject: string }>(
      'SELECT subject FROM events WHERE subject = ANY ($1) ORDER BY seal, number',
      [this.uncopied],
    );
    for (const { subject } of order) this.copied.push(...this.uncopied.splice(this.uncopied.indexOf(subject), 1));
  }

  private choose(after: string, choice: number): string | undefined {
    if (after === 'nothing') return undefined;
    return after === 'last' ? this.cursors.at(-1) : this.cursors[choice % (this.cursors.length || 1)];
  }

  private async poll(after: string | undefined, limit: number, handled: number): Promise<boolean> {
    const answer = await this.subscriber.read({ after, limit });
    const covered = after === undefined ? undefined : this.resets.get(after);
    if (!answer.reset && covered !== undefined) {
      this.owesReset = false;
      this.cover(covered);
    }
    if (answer.reset) {
      this.resets.set(answer.cursor!, this.copied.length);
      this.cursors.push(answer.cursor!);
      return true;
    }
    if (this.owesReset) this.violations.push('read on after a restore without a reset');
    for (const event of answer.events.slice(0, handled)) this.handle(event);
    return answer.events.length > 0;
  }

  private handle({ subject, cursor }: Told): void {
    this.handledEvents += 1;
    if (!this.known.has(subject.id)) this.violations.push(`${subject.id} was told, but not committed`);
    this.untold.delete(subject.id);
    this.cursors.push(cursor);
  }

  private async purge(choice: number): Promise<void> {
    const kept = this.copied.filter((subject) => !this.purged.has(subject));
    const subject = kept[choice % (kept.length || 1)];
    if (subject === undefined) return;
    await app.database.query('DELETE FROM events WHERE subject = $1', [subject]);
    this.purged.add(subject);
    if (this.untold.delete(subject)) this.lost.add(subject);
  }

  /** The position is restored with the database, and the consumer was started anew. */
  private async restore(): Promise<void> {
    await app.database.query(`UPDATE event_subscriptions SET origin = 'another' WHERE service = $1`, [
      this.subscriber.name,
    ]);
    this.cursors.length = 0;
    this.owesReset = true;
  }

  /** After a rewind. The beginning is behind the last event that a purge took. */
  private expectAgain(): void {
    const beginning = 1 + Math.max(-1, ...[...this.purged].map((subject) => this.copied.indexOf(subject)));
    for (const subject of this.copied.slice(beginning)) this.untold.add(subject);
  }

  /** The first events are not owed any more. */
  private cover(count: number): void {
    for (const subject of this.copied.slice(0, count)) {
      this.untold.delete(subject);
      this.lost.delete(subject);
    }
  }

  private async drain(): Promise<void> {
    await this.copy();
    let isMore = await this.poll(undefined, 3, 3);
    for (let polls = 0; isMore && polls < MAX_DRAINING_POLLS; polls += 1)
      isMore = await this.poll(this.cursors.at(-1), 3, 3);
    for (const subject of this.untold) this.violations.push(`${subject} was committed, but never told`);
    for (const subject of this.lost) this.violations.push(`${subject} was purged without a reset`);
  }
}

const insertDeletion = (subject: string): string =>
  insertion(randomUUID(), 'now()', { event: `'user.deleted'`, subject: `'${subject}'` });

const XID = '(SELECT xmin::text::bigint FROM audit_events WHERE audit_events.id = events.id)';
/** Seal and number after which a statement reads. */
const POSITION = String.raw`(\$2::bigint|COALESCE\(\$4::bigint, held\.seal\)), (\$3::integer|COALESCE\(\$5::integer, held\.number\))`;
/** The transaction id of the last event up to the {@link POSITION} that was found; 0 without one. */
const XID_OF_POSITION = `COALESCE((SELECT ${XID} FROM events WHERE (seal, number) <= ($1, $2)
  ORDER BY seal DESC, number DESC LIMIT 1), 0)`;

/** The statements of the service, with a mistake in one of them, and a seed that finds it soon. */
const MISTAKES: readonly { name: string; seed: number; plant: (query: Query) => Query }[] = [
  {
    name: 'order by time',
    seed: 24,
    plant: rewrite(/ORDER BY (next\.|found\.|type, )seal, (next\.|found\.)?number/g, 'ORDER BY $1time'),
  },
  {
    name: 'order by transaction id',
    seed: 1,
    plant: rewrite(
      new RegExp(
        String.raw`\(type, seal, number\) > \(wanted\.type, ${POSITION}\) AND type <= wanted\.type\s+ORDER BY type, seal, number`,
        'g',
      ),
      `type = wanted.type AND ${XID} > ${XID_OF_POSITION} ORDER BY ${XID}`,
    ),
  },
  { name: 'a position moved by an answer', seed: 5, plant: moveByAnswers },
  { name: 'a seal skipped', seed: 1, plant: rewrite('number > seal ORDER BY', 'number > seal + 1 ORDER BY') },
  {
    name: 'a rewind undone by a cursor in flight',
    seed: 7,
    plant: rewrite('generation = generation + 1', 'generation = generation'),
  },
  {
    name: 'retention judged by the oldest seal left',
    seed: 3,
    plant: rewrite(
      new RegExp(
        String.raw`EXISTS \(SELECT FROM event_purges AS purge\s+WHERE type = ANY \((.+)\) AND .+ > \(${POSITION}\)\)`,
        'g',
      ),
      '($3 >= 0 AND $2 + 1 < (SELECT min(events.seal) FROM events WHERE type = ANY ($1)))',
    ),
  },
  {
    name: 'a restore unnoticed because the position was restored too',
    seed: 1,
    plant: rewrite(`origin, ${ORIGIN} AS present`, `${ORIGIN} AS origin, ${ORIGIN} AS present`),
  },
];

function rewrite(right: string | RegExp, wrong: string): (query: Query) => Query {
  return (query) =>
    function (sql, values) {
      return query.call(this, sql.replace(right, wrong), values);
    };
}

function moveByAnswers(query: Query): Query {
  let service: unknown;
  return async function (sql, values) {
    if (sql.includes('SKIP LOCKED')) service = values?.[0];
    const rows = await query.call(this, sql, values);
    if (!sql.includes('json_agg(')) return rows;
    const [{ events }] = rows as [{ events: { seal: number; number: number }[] }];
    const last = events.at(-1);
    const move = 'UPDATE event_subscriptions SET seal = $2, number = $3 WHERE service = $1';
    if (last) await query.call(this, move, [service, last.seal, last.number]);
    return rows;
  };
}

describe('a service that acknowledges only what it handled', () => {
  it('is told each committed act at least once and no other, or is reset, whatever happens to positions, seals and rows', async () => {
    let handledEvents = 0;
    await fc.assert(
      fc.asyncProperty(all, async (history) => {
        const world = await World.run(history);
        handledEvents += world.handledEvents;
        expect(world.violations).toEqual([]);
      }),
      { numRuns: RUNS },
    );
    // Otherwise the run proves nothing.
    expect(handledEvents).toBeGreaterThan(RUNS);
  });

  it.each(MISTAKES)('finds a mistake: $name', async ({ plant, seed }) => {
    await withWrappedQueries(plant, async () => {
      const holds = fc.asyncProperty(all, async (history) => (await World.run(history)).violations.length === 0);
      expect((await fc.check(holds, { seed, numRuns: MAX_FINDING_RUNS, endOnFailure: true })).failed).toBe(true);
    });
  });
});
