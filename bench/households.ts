// What households cost: the hot routes over two databases of 300,000 users in turn, one without a household and one
// with 100,000 households of three members each. The users who ask are members of three households in the second one.
// The service over the first one may be that of another checkout.
import { join } from 'node:path';
import { ApiClient } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { createOwnRequests, type HttpRequest } from './loads.js';
import { measure, type Contestant, type MeasureOptions, type Sample } from './measure.js';
import { populate } from './population.js';
import { createRefreshing, toAppRequest, toLoginRequest, toNodeRequest, toUserRequest } from './requests.js';
import type { Testbed } from './testbed.js';

const HOUSEHOLDS = 100_000;
const MEMBERS_EACH = 3;
const VARIABLES = { BCRYPT_COST: '4' };
const DATABASES = { none: 0, many: HOUSEHOLDS } as const;
/** The promise: a validation of a user's token within 10 %, and every other route within 3 %. */
const MAX_RATIO_OF_USER = 1.1;
const MAX_RATIO = 1.03;
const USER = 'validate-user';

const FILL_USERS = `INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
  SELECT gen_random_uuid(), 'u' || i || '@example.org', '$2b$04$', true, now(), now() FROM generate_series(1, $1::int) i`;
const FILL_HOUSEHOLDS = `INSERT INTO households (id, name, created_at, updated_at)
  SELECT gen_random_uuid(), 'home ' || i, now(), now() FROM generate_series(1, $1::int) i`;
/** Gives the users who ask, `$1`, three households each, and all others one. */
const FILL_MEMBERS = `INSERT INTO household_members (household_id, user_id, role, since)
  SELECT household.id, person.id, CASE place WHEN 0 THEN 'admin' ELSE 'member' END, now()
  FROM (SELECT id, row_number() OVER (ORDER BY id) - 1 AS number FROM households) household
  CROSS JOIN generate_series(0, ${MEMBERS_EACH - 1}) place
  JOIN (SELECT id, row_number() OVER (ORDER BY id <> ALL ($1::uuid[]), id) - 1 AS number FROM users) person
    ON person.number = CASE WHEN household.number < cardinality($1) THEN (household.number + place) % cardinality($1)
      ELSE household.number * ${MEMBERS_EACH} + place - cardinality($1) * ${MEMBERS_EACH - 1} END`;

interface HouseholdsOptions extends MeasureOptions {
  /** The folder of another checkout, built, whose service is measured without households; undefined: this one's. */
  readonly against?: string | undefined;
}

/** Prints the routes, with the ratio of both databases in CPU time and in time for an answer. */
export async function measureHouseholds(
  testbed: Testbed,
  options: HouseholdsOptions,
  isWanted: (name: string) => boolean,
): Promise<void> {
  const { against } = options;
  const filter = (routes: Contestant[]): Contestant[] => routes.filter(({ name }) => isWanted(name));
  const none = filter(await makeRoutes(testbed, 'none', against && join(against, 'dist', 'service', 'main.js')));
  const many = filter(await makeRoutes(testbed, 'many'));
  // Each route follows itself, so that both are measured while the machine is alike.
  const results = await measure(
    none.flatMap((route, index) => [route, ...many.slice(index, index + 1)]),
    options,
  );
  for (const name of none.map((route) => route.name.replace('none: ', '')))
    printRoute(name, results.get(`none: ${name}`) ?? {}, results.get(`many: ${name}`) ?? {});
}

function printRoute(name: string, none: Sample, many: Sample): void {
  const cost = (many.cpu ?? NaN) / (none.cpu ?? NaN);
  const slowdown = (none.throughput ?? NaN) / (many.throughput ?? NaN);
  const max = name === USER ? MAX_RATIO_OF_USER : MAX_RATIO;
  const figures = [none, many].map(
    ({ cpu = NaN, throughput = NaN }) => `${cpu.toFixed(0)} µs, ${throughput.toFixed(0)}/s`,
  );
  const ratios = `CPU × ${cost.toFixed(3)}, time × ${slowdown.toFixed(3)}`;
  console.log(
    `${name.padEnd(20)} ${figures.join(' → ')}: ${ratios}, at most ${max} (${cost <= max ? 'held' : 'missed'})`,
  );
}

async function makeRoutes(testbed: Testbed, database: keyof typeof DATABASES, script?: string): Promise<Contestant[]> {
  await withClient(testbed.database.url(), (client) => client.query(`CREATE DATABASE ${database}`));
  const first = await testbed.startService(VARIABLES, database, script);
  const known = await populate(new ApiClient(first.url, testbed.secrets.ADMIN_API_KEY));
  await first.stop();
  await withClient(testbed.database.url(database), async (connection) => {
    await connection.query(FILL_USERS, [HOUSEHOLDS * MEMBERS_EACH]);
    if (DATABASES[database] > 0) {
      await connection.query(FILL_HOUSEHOLDS, [DATABASES[database]]);
      await connection.query(FILL_MEMBERS, [known.bearers.map(({ userId }) => userId)]);
      const { rows } = await connection.query('SELECT count(*) FROM household_members');
      process.stderr.write(`${JSON.stringify(rows)} memberships\n`);
    }
    await connection.query('VACUUM ANALYZE');
    await connection.query('CHECKPOINT');
  });
  // Started again, so that it finds the rows as after any start, and has not worked on what made them.
  const service = await testbed.startService(VARIABLES, database, script);
  const client = new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY);
  const make = <Item>(name: string, items: readonly Item[], toRequest: (item: Item) => HttpRequest): Contestant =>
    createOwnRequests(
      `${database}: ${name}`,
      service,
      items.map((item) => [toRequest(item)]),
    );
  return [
    make(USER, known.bearers, ({ token }) => ({
      method: 'POST',
      path: '/internal/validate-user',
      headers: { Authorization: `Bearer ${token}` },
    })),
    make('validate-node', known.nodes, ({ node_id, api_key }) => toNodeRequest(node_id, api_key)),
    make('validate-app', known.apps, ({ app_id, app_key }) => toAppRequest(app_id, app_key)),
    make('users/{id} (bearer)', known.bearers, ({ userId, token }) => toUserRequest(userId, token)),
    createRefreshing(`${database}: refresh`, service, client, known),
    make('login', known.people, toLoginRequest),
  ];
}
