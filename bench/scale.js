import { createHash, createHmac, randomUUID } from 'node:crypto';
import pg from 'pg';
import { ANY_GIVEN_ID } from '../dist/src/database/rows-by-id.js';
import { PURGE_SESSIONS, READ_LIVE, ROTATE } from '../dist/src/tokens/session-statements.js';
import {
  appRequest,
  logIn,
  nodeRequest,
  populate,
  refreshing,
  SECRETS,
  startService,
  userRequest,
} from './contestants.js';
import { overHttp } from './loads.js';
import { measure } from './measure.js';
import { CONNECTIONS } from './shared.js';

const SIZES = { few: 1_000, many: 1_000_000 };
const MOST = 1.2;
/** So many different credentials are presented on either, wherever in the tables they are. */
const CREDENTIALS = 1_000;

/** An id that SQL and this file make alike. */
const uuid = (text) => `overlay(overlay(md5(${text}) placing '4' from 13) placing '8' from 17)::uuid`;
const FILL = [
  `INSERT INTO users (id, email, password_hash, is_active, created_at, updated_at)
   SELECT ${uuid(`'u' || i`)}, 'u' || i || '@example.org', '$2b$04$', true, now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
   SELECT ${uuid(`'s' || i`)}, ${uuid(`'u' || i`)}, sha256(i::text::bytea), 0, now(), now() + interval '1 day',
          now() + interval '1 day', now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
   SELECT ${uuid(`'n' || i`)}, gen_random_uuid(), 'hall', 'lamp', sha256(('k' || i)::bytea), now(), now()
   FROM generate_series(1, $1::int) i`,
  `INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at)
   SELECT ${uuid(`'a' || i`)}, 'c' || i, 't', sha256(('k' || i)::bytea), now(), now() FROM generate_series(1, $1::int) i`,
  `INSERT INTO audit_events (id, time, event, actor_door, actor_id, subject, count, details)
   SELECT gen_random_uuid(), now() - i * interval '1 second', 'user.login.succeeded', 'user', ${uuid(`'u' || i`)},
          ${uuid(`'u' || i`)}, 1, '{}' FROM generate_series(1, $1::int) i`,
  `INSERT INTO throttle_counters (key, points, expire)
   SELECT 'login-account:' || md5(i::text), 1, 4102444800000 FROM generate_series(1, $1::int) i`,
];

/**
 * The hot routes on two databases, in turn: one with a thousand rows in each table, one with a million.
 * Passwords cost next to nothing here, so that the rest of a login can be seen.
 */
export async function measureScale(place, options) {
  const contestants = [];
  for (const [size, rows] of Object.entries(SIZES)) contestants.push(...(await routesAt(place, size, rows)));
  const results = await measure(contestants, options);
  const names = contestants.slice(0, contestants.length / 2).map(({ name }) => name.replace('few: ', ''));
  const routes = names.map((name) => {
    const [few, many] = Object.keys(SIZES).map((size) => results.get(`${size}: ${name}`));
    const [cost, slowdown] = [many.cpu / few.cpu, few.throughput / many.throughput];
    return { name, few, many, cost, slowdown, isHeld: Math.max(cost, slowdown) <= MOST };
  });
  return { routes, plans: await plansIn(place.database.url('many')) };
}

async function routesAt(place, size, rows) {
  await inDatabase(place.database.url(), (client) => client.query(`CREATE DATABASE ${size}`));
  const variables = { BCRYPT_COST: '4' };
  const service = await startService(place, variables, size);
  const known = await populate(service.url);
  await inDatabase(place.database.url(size), async (client) => {
    for (const statement of FILL) {
      process.stderr.write(`${rows} rows: ${statement.slice(0, 30)}…\n`);
      await client.query(statement, [rows]);
    }
    await client.query('VACUUM ANALYZE');
    await client.query('CHECKPOINT');
  });
  const off = await startService(place, { ...variables, REVOCATION_LEASE_MS: '0' }, size);
  const many = (name, { url, pid }, requestOf) => {
    const requests = chosen(rows).map(requestOf);
    const requestsOf = (connection) => requests.filter((_, i) => i % CONNECTIONS === connection);
    return overHttp({ name: `${size}: ${name}`, url, pid, requestsOf });
  };
  const logins = logIn(service, known.people[0]);
  return [
    many('validate-node', service, nodeOf),
    many('validate-app', service, appOf),
    many('validate-node, memory off', off, nodeOf),
    many('validate-app, memory off', off, appOf),
    many('users/{id} (bearer)', service, userOf),
    refreshing(`${size}: refresh`, service, known),
    overHttp({ name: `${size}: login (bcrypt, cost 4)`, pid: service.pid, connections: 8, ...logins }),
  ];
}

/** Numbers of rows, evenly spread over the table. */
function chosen(rows) {
  return Array.from({ length: CREDENTIALS }, (_, index) => 1 + Math.floor((index * rows) / CREDENTIALS));
}

function idOf(text) {
  const hex = createHash('md5').update(text).digest('hex');
  const fixed = `${hex.slice(0, 12)}4${hex.slice(13, 16)}8${hex.slice(17)}`;
  return fixed.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

// What is in a row with a number, as FILL made it.
const nodeOf = (i) => nodeRequest(idOf(`n${i}`), `k${i}`);
const appOf = (i) => appRequest(idOf(`a${i}`), `k${i}`);

function userOf(i) {
  const id = idOf(`u${i}`);
  return userRequest(id, tokenOf(i, id));
}

/** Signed as the service does it. */
function tokenOf(i, sub) {
  const iat = Math.floor(Date.now() / 1_000);
  const claims = { iss: 'platform-auth', sub, sid: idOf(`s${i}`), jti: randomUUID(), iat, exp: iat + 86_400 };
  const encoded = [
    { alg: 'HS256', typ: 'JWT' },
    { ...claims, email: `u${i}@example.org` },
  ]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  const signature = createHmac('sha256', SECRETS.SECRET_KEY).update(encoded).digest('base64url');
  return `${encoded}.${signature}`;
}

const PLANS = [
  ['validate-node', 'SELECT id, household_id, key_digest, revoked_at FROM nodes WHERE id = ' + ANY_GIVEN_ID],
  ['validate-app', 'SELECT id, caller, target, key_digest FROM app_credentials WHERE id = ' + ANY_GIVEN_ID],
  ['bearer', READ_LIVE.text],
  ['user', 'SELECT id, email, is_active, created_at, updated_at FROM users WHERE id = ' + ANY_GIVEN_ID],
  ['refresh', ROTATE.text],
  ['login', 'SELECT id, email, password_hash, is_active FROM users WHERE email = $1'],
  ['throttle', 'SELECT points, expire FROM throttle_counters WHERE key = $1 AND (expire > $2 OR expire IS NULL)'],
  // Planned for its values each time.
  ['purge', PURGE_SESSIONS.replace('$1', `now() - interval '30 days'`).replace('$2', '1000')],
];

/** Generic plans, as prepared statements use them. */
async function plansIn(url) {
  return inDatabase(url, async (client) => {
    const plans = [];
    for (const [name, statement] of PLANS) {
      const { rows } = await client.query(`EXPLAIN (GENERIC_PLAN) ${statement}`);
      plans.push({ name, plan: rows.map((row) => row['QUERY PLAN']) });
    }
    return plans;
  });
}

async function inDatabase(url, task) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await task(client);
  } finally {
    await client.end();
  }
}
