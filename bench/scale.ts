import { z } from 'zod';
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { ANY_GIVEN_ID } from '../src/foundation/database/database.js';
import { RESERVE } from '../src/foundation/throttling/throttle-windows.js';
import { buildDeletion, SESSIONS } from '../src/domain/maintenance/jobs.js';
import { READ_LIVE, READ_LIVE_WITH_HOUSEHOLDS } from '../src/domain/tokens/sessions.service.js';
import { ROTATE } from '../src/domain/tokens/refresh-tokens.js';
import { ApiClient } from '../tools/api-client.js';
import { withClient } from '../tools/postgres.js';
import { itemOf, createHttpContestant, createOwnRequests, type HttpRequest } from './loads.js';
import { CONNECTIONS, measure, type Contestant, type MeasureOptions, type Sample } from './measure.js';
import { populate } from './population.js';
import { toLoginRequest, createRefreshing, toAppRequest, toNodeRequest, toUserRequest } from './requests.js';
import type { Target, Testbed } from './testbed.js';

const SIZES = { few: 1_000, many: 1_000_000 };
const MAX_RATIO = 1.2;
/** The number of credentials that are presented at either size, evenly spread over the tables. */
const CREDENTIALS = 1_000;

const planRow = z.object({ 'QUERY PLAN': z.string() }).transform((row) => row['QUERY PLAN']);

interface ScaledRoute {
  readonly name: string;
  readonly few: Sample;
  readonly many: Sample;
  readonly cost: number;
  readonly slowdown: number;
  readonly isHeld: boolean;
}

interface Plan {
  readonly name: string;
  readonly plan: readonly string[];
}

export interface ScaleResult {
  readonly routes: readonly ScaledRoute[];
  readonly plans: readonly Plan[];
}

/**
 * Measures the hot routes on two databases in turn, with a thousand and a million rows in each table. bcrypt has its
 * lowest cost, so that the rest of a login is visible.
 */
export async function measureScale(testbed: Testbed, options: MeasureOptions): Promise<ScaleResult> {
  const few = await routesAt(testbed, 'few');
  const many = await routesAt(testbed, 'many');
  const results = await measure([...few, ...many], options);
  const routes = few.map(({ name: fewName }) => {
    const name = fewName.replace('few: ', '');
    return compare(name, results.get(fewName) ?? {}, results.get(`many: ${name}`) ?? {});
  });
  return { routes, plans: await explainStatements(testbed.database.url('many')) };
}

function compare(name: string, few: Sample, many: Sample): ScaledRoute {
  const cost = (many.cpu ?? NaN) / (few.cpu ?? NaN);
  const slowdown = (few.throughput ?? NaN) / (many.throughput ?? NaN);
  return { name, few, many, cost, slowdown, isHeld: Math.max(cost, slowdown) <= MAX_RATIO };
}

async function routesAt(testbed: Testbed, size: keyof typeof SIZES): Promise<Contestant[]> {
  const rows = SIZES[size];
  await withClient(testbed.database.url(), (client) => client.query(`CREATE DATABASE ${size}`));
  const variables = { BCRYPT_COST: '4' };
  const service = await testbed.startService(variables, size);
  const client = new ApiClient(service.url, testbed.secrets.ADMIN_API_KEY);
  const known = await populate(client);
  await fill(testbed.database.url(size), rows);
  const off = await testbed.startService({ ...variables, REVOCATION_LEASE_MS: '0' }, size);
  const spread = (name: string, target: Target, requestOf: (row: number) => HttpRequest): Contestant =>
    createOwnRequests(`${size}: ${name}`, target, byConnection(rows, requestOf));
  const userRequest = (row: number): HttpRequest => userRequestOf(row, testbed.secrets.SECRET_KEY);
  return [
    spread('validate-node', service, nodeRequestOf),
    spread('validate-app', service, appRequestOf),
    spread('validate-node, cache off', off, nodeRequestOf),
    spread('validate-app, cache off', off, appRequestOf),
    spread('users/{id} (bearer)', service, userRequest),
    createRefreshing(`${size}: refresh`, service, client, known),
    createHttpContestant({
      name: `${size}: login (bcrypt, cost 4)`,
      target: service,
      connections: 8,
      request: toLoginRequest(itemOf(known.people, 0)),
    }),
  ];
}

async function fill(url: string, rows: number): Promise<void> {
  await withClient(url, async (client) => {
    for (const statement of FILL) {
      process.stderr.write(`${rows} rows: ${statement.slice(0, 30)}…\n`);
      await client.query(statement, [rows]);
    }
    await client.query('VACUUM ANALYZE');
    await client.query('CHECKPOINT');
  });
}

/** @returns the requests of each connection, for rows that are evenly spread over the table */
function byConnection(rows: number, requestOf: (row: number) => HttpRequest): HttpRequest[][] {
  const chosen = Array.from({ length: CREDENTIALS }, (_, index) => 1 + Math.floor((index * rows) / CREDENTIALS));
  const requests = chosen.map(requestOf);
  return Array.from({ length: CONNECTIONS }, (_, connection) =>
    requests.filter((_request, index) => index % CONNECTIONS === connection),
  );
}

const STATEMENTS: readonly [name: string, text: string][] = [
  ['validate-node', `SELECT id, household_id, key_digest, revoked_at FROM nodes WHERE id = ${ANY_GIVEN_ID}`],
  ['validate-app', `SELECT id, caller, target, key_digest FROM app_credentials WHERE id = ${ANY_GIVEN_ID}`],
  ['bearer', READ_LIVE.text],
  ['validate-user', READ_LIVE_WITH_HOUSEHOLDS.text],
  ['user', `SELECT id, email, is_active, created_at, updated_at FROM users WHERE id = ${ANY_GIVEN_ID}`],
  ['refresh', ROTATE.text],
  ['login', 'SELECT id, email, password_hash, is_active FROM users WHERE email = $1'],
  ['throttle', RESERVE.text],
  // Not prepared, because PostgreSQL plans it for its values each time.
  ['purge', buildDeletion(SESSIONS).replace('$1', `now() - interval '30 days'`).replace('$2', '1000')],
];

/** Explains generic plans, which prepared statements use. */
function explainStatements(url: string): Promise<Plan[]> {
  return withClient(url, async (client) => {
    const plans: Plan[] = [];
    for (const [name, text] of STATEMENTS) {
      const { rows } = await client.query(`EXPLAIN (GENERIC_PLAN) ${text}`);
      plans.push({ name, plan: z.array(planRow).parse(rows) });
    }
    return plans;
  });
}

const sqlId = (text: string): string => `overlay(overlay(md5(${text}) placing '4' from 13) placing '8' from 17)::uuid`;

/** `$1` is the number of rows. */
const FILL = [
  `INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
   SELECT ${sqlId(`'u' || i`)}, 'u' || i || '@example.org', '$2b$04$', true, now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
   SELECT ${sqlId(`'s' || i`)}, ${sqlId(`'u' || i`)}, sha256(i::text::bytea), 0, now(), now() + interval '1 day',
          now() + interval '1 day', now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
   SELECT ${sqlId(`'n' || i`)}, gen_random_uuid(), 'hall', 'lamp', sha256(('k' || i)::bytea), now(), now()
   FROM generate_series(1, $1::int) i`,
  `INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at)
   SELECT ${sqlId(`'a' || i`)}, 'c' || i, 't', sha256(('k' || i)::bytea), now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO audit_events (id, time, event, actor_door, actor_id, subject, count, details)
   SELECT gen_random_uuid(), now() - i * interval '1 second', 'user.login.succeeded', 'user', ${sqlId(`'u' || i`)},
          ${sqlId(`'u' || i`)}, 1, '{}' FROM generate_series(1, $1::int) i`,
  `INSERT INTO throttle_windows (key, points, window_start, window_end, consumed, reserved, reserved_until, last_reserved)
   SELECT 'login-account:' || md5(i::text), 100, now(), now() + interval '1 day', 1, 0, now(), 0
   FROM generate_series(1, $1::int) i`,
];

function nodeRequestOf(row: number): HttpRequest {
  return toNodeRequest(idOf(`n${row}`), `k${row}`);
}

function appRequestOf(row: number): HttpRequest {
  return toAppRequest(idOf(`a${row}`), `k${row}`);
}

function userRequestOf(row: number, secretKey: string): HttpRequest {
  const id = idOf(`u${row}`);
  return toUserRequest(id, signToken(row, id, secretKey));
}

/** Signs an access token as the service does. */
function signToken(row: number, sub: string, secretKey: string): string {
  const iat = Math.floor(Date.now() / 1_000);
  const claims = { iss: 'platform-auth', sub, sid: idOf(`s${row}`), jti: randomUUID(), iat, exp: iat + 86_400 };
  const encoded = [
    { alg: 'HS256', typ: 'JWT' },
    { ...claims, email: `u${row}@example.org` },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${encoded}.${createHmac('sha256', secretKey).update(encoded).digest('base64url')}`;
}

function idOf(text: string): string {
  const hex = createHash('md5').update(text).digest('hex');
  const fixed = `${hex.slice(0, 12)}4${hex.slice(13, 16)}8${hex.slice(17)}`;
  return fixed.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
