import { problems } from '../../src/problems/problems.js';
import { eventually } from '../../tools/eventually.js';
import { expectProblem } from '../support/expect-problem.js';
import { Callers, SHORT_WAITS } from '../support/outage.js';
import { OwnPostgres } from '../support/own-postgres.js';
import { PASSWORD } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';

describe('a PostgreSQL that is stopped while the service runs', () => {
  let postgres: OwnPostgres;
  let callers: Callers;

  beforeAll(async () => {
    postgres = await OwnPostgres.start();
    callers = await Callers.of(await TestApp.start({ database: postgres.database, ...SHORT_WAITS }));
  }, 240_000);

  afterAll(async () => {
    await callers.app.stop();
    await postgres.remove();
  });

  it.each(['fast', 'immediate'] as const)(
    '(%s) causes 503 on every route, and the service recovers by itself',
    async (mode) => {
      await postgres.stop(mode);
      await callers.expectNoVerdicts();
      await callers.expectNoVerdicts();
      await postgres.startAgain();
      await callers.expectRecovered();
    },
    240_000,
  );

  it('by a crash under load causes no wrong verdict, and no acknowledged write is lost', async () => {
    const { app, node } = callers;
    const acknowledged: string[] = [];
    let validated = 0;
    let unavailable = 0;
    let isOver = false;
    const validating = async (): Promise<void> => {
      while (!isOver) {
        const answer = await app.validateNode(node.header);
        if (answer.status === 200) validated += 1;
        else expectProblem(answer, problems.unavailable);
      }
    };
    const registering = async (_: unknown, writer: number): Promise<void> => {
      for (let i = 0; !isOver; i += 1) {
        const email = `writer-${writer}-${i}@example.org`;
        const answer = await app.post('/api/v0/auth/register', { email, password: PASSWORD });
        if (answer.status === 201) acknowledged.push(email);
        else expectProblem(answer, problems.unavailable);
        unavailable += answer.status === 503 ? 1 : 0;
      }
    };
    const load = Promise.all([
      ...Array.from({ length: 8 }, validating),
      ...Array.from({ length: 4 }, (_, writer) => registering(_, writer)),
    ]);
    try {
      await eventually('both are under way', () => validated > 50 && acknowledged.length > 20);
      await postgres.stop('immediate');
      await eventually('requests fail', () => unavailable > 5);
      await postgres.startAgain();
      const before = acknowledged.length;
      await eventually('it is over', () => acknowledged.length > before + 20);
    } finally {
      isOver = true;
      await load;
    }
    const rows = await postgres.database.query<{ email: string }>('SELECT email FROM users');
    const kept = new Set(rows.map(({ email }) => email));
    expect(acknowledged.filter((email) => !kept.has(email))).toEqual([]);
    await callers.expectRecovered();
  }, 240_000);
});
