import pg from 'pg';
import { keyStatements } from '../dist/src/credentials/key-statements.js';
import * as sessions from '../dist/src/tokens/session-statements.js';
import { measure } from './measure.js';

const ROWS = 1_000_000;
const NODES = keyStatements({ name: 'nodes', identityColumns: ['household_id'], keyPrefix: '' });
const APPS = keyStatements({ name: 'app_credentials', identityColumns: ['caller', 'target'], keyPrefix: '' });

/** Every table grows to a million rows of which none is used. */
const FILL = [
  `INSERT INTO users SELECT gen_random_uuid(), 'u' || i || '@example.org', '$2b$04$', true, now(), now() FROM generate_series(1, ${ROWS}) i`,
  `INSERT INTO sessions (id, user_id, token_digest, generation, rotated_at, expires_at, absolute_expires_at, created_at)
   SELECT gen_random_uuid(), (SELECT id FROM users WHERE email = 'bench@example.org'), sha256(i::text::bytea), 0, now(),
          now() + interval '1 day', now() + interval '1 day', now() FROM generate_series(1, ${ROWS}) i`,
  `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
   SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'lamp', sha256(i::text::bytea), now(), now() FROM generate_series(1, ${ROWS}) i`,
  `INSERT INTO app_credentials (id, caller, target, key_digest, created_at, updated_at)
   SELECT gen_random_uuid(), 'c' || i, 't', sha256(i::text::bytea), now(), now() FROM generate_series(1, ${ROWS}) i`,
  'VACUUM ANALYZE',
];

const ID = `'01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11'::uuid`;
const PLANS = [
  ['validate-node', NODES.read.text.replace('$1', ID)],
  ['validate-app', APPS.read.text.replace('$1', ID)],
  ['bearer', sessions.IS_LIVE.text.replace('$1', ID).replace('$2', ID).replace('$3', 'now()')],
  ['login', `SELECT id, password_hash, is_active FROM users WHERE email = 'u500000@example.org'`],
  [
    'refresh',
    sessions.ROTATE.text
      .replace('$1', ID)
      .replace('$2', `'\\x00'::bytea`)
      .replace('$3', `'\\x00'::bytea`)
      .replaceAll(/\$[45]/g, 'now()'),
  ],
  ['purge', `SELECT id FROM sessions WHERE LEAST(expires_at, ended_at) < now() - interval '30 days' LIMIT 1000`],
];

/** Fills the tables, measures the hot routes again, and prints the plans of their statements. */
export async function printScale(database, contestants, options) {
  const routes = contestants.slice(3).filter(({ name }) => !name.startsWith('login') && !name.startsWith('health'));
  const few = await measure(routes, options);
  const client = new pg.Client({ connectionString: database.url() });
  await client.connect();
  for (const statement of FILL) {
    process.stderr.write(`${statement.slice(0, 40)}…\n`);
    await client.query(statement);
  }
  const many = await measure(routes, options);
  console.log(`\nA few rows beside ${ROWS.toLocaleString('en')} more in every table\n`);
  console.log('| what | requests/s, few | requests/s, many | cost, many ÷ few |');
  console.log('| --- | ---: | ---: | ---: |');
  for (const [name, { throughput }] of few) {
    const full = many.get(name).throughput;
    console.log(`| ${name} | ${throughput.toFixed(0)} | ${full.toFixed(0)} | ${(throughput / full).toFixed(2)} |`);
  }
  for (const [name, statement] of PLANS) {
    const { rows } = await client.query(`EXPLAIN ${statement}`);
    console.log(`\n${name}\n${rows.map((row) => `  ${row['QUERY PLAN']}`).join('\n')}`);
  }
  await client.end();
}
