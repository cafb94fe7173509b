// Account enumeration by timing: logs in with an unknown address, with a wrong password and to a disabled account, in
// turn, and compares the times. The figures are printed and not asserted, because a shared machine is too noisy.
import { randomInt } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { mannWhitney } from './mann-whitney.js';
import { Client } from './send.js';
import { startService } from './service.js';

const USAGE = `Usage: npm run timing -- [--rounds N] [--cost C] [--short]

  --rounds N  number of logins of each kind (default 1500)
  --cost C    BCRYPT_COST of the service (default 8)
  --short     1000 rounds at cost 4: about 15 seconds
  --help      print this text`;

const ACCOUNTS = 20;
const WARM_UP_ROUNDS = 50;
const PASSWORD = 'a perfectly fine passphrase';

function options() {
  try {
    const { values } = parseArgs({
      options: {
        rounds: { type: 'string' },
        cost: { type: 'string' },
        short: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    const rounds = Number(values.rounds ?? (values.short ? 1_000 : 1_500));
    const cost = Number(values.cost ?? (values.short ? 4 : 8));
    if (!(rounds >= 30 && rounds <= 1e6 && cost >= 4 && cost <= 16))
      throw new Error('30 to 1000000 rounds, cost 4 to 16');
    return { rounds, cost, help: values.help };
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

const { rounds, cost, help } = options();
if (help) {
  console.log(USAGE);
  process.exit(0);
}
const service = await startService({ BCRYPT_COST: String(cost), LOG_LEVEL: 'info' });
const client = new Client(service);
try {
  const attempts = await makeAttempts();
  for (let round = 0; round < WARM_UP_ROUNDS; round += 1) await inRandomOrder(attempts, round, () => undefined);
  const times = { unknown: [], wrong: [], disabled: [] };
  for (let round = 0; round < rounds; round += 1) {
    await inRandomOrder(attempts, round, (kind, milliseconds) => times[kind].push(milliseconds));
    if (round % 250 === 0) process.stderr.write(`round ${round} of ${rounds}\n`);
  }
  print(times);
} finally {
  client.close();
  await service.stop();
}

/** @returns the bodies of each kind of login: addresses and passwords of equal length */
async function makeAttempts() {
  const serials = Array.from({ length: ACCOUNTS }, (_, i) => String(i).padStart(4, '0'));
  for (const serial of serials) {
    await account(`active-${serial}@example.org`);
    const { id } = await account(`closed-${serial}@example.org`);
    await admin('PATCH', `/api/v0/admin/users/${id}`, { is_active: false });
  }
  const password = 'a perfectly wrong passphrase';
  const of = (round) => serials[round % ACCOUNTS];
  return {
    unknown: (round) => ({ email: `absent-${of(round)}@example.org`, password }),
    wrong: (round) => ({ email: `active-${of(round)}@example.org`, password }),
    // The correct password: whether an account is disabled is only checked after the password was verified.
    disabled: (round) => ({ email: `closed-${of(round)}@example.org`, password: PASSWORD }),
  };
}

function account(email) {
  return admin('POST', '/api/v0/admin/users', { email, password: PASSWORD });
}

async function admin(method, path, body) {
  const { status, json } = await client.json(method, path, { headers: { 'X-Admin-Key': service.adminKey }, body });
  if (status >= 300) throw new Error(`${method} ${path} answered ${status}`);
  return json;
}

/** One login of each kind in random order, one after the other, so that noise affects all kinds alike. */
async function inRandomOrder(attempts, round, record) {
  const kinds = Object.keys(attempts);
  for (let left = kinds.length; left > 0; left -= 1) {
    const [kind] = kinds.splice(randomInt(left), 1);
    const body = attempts[kind](round);
    const startedAt = performance.now();
    const { status } = await client.json('POST', '/api/v0/auth/login', { headers: {}, body });
    const milliseconds = performance.now() - startedAt;
    if (status !== 401) throw new Error(`A login of the kind "${kind}" answered ${status}`);
    record(kind, milliseconds);
  }
}

function print(times) {
  console.log(`Node ${process.version}, bcrypt cost ${cost}, ${rounds} logins of each kind, in turn\n`);
  console.log('| login | p5 ms | median ms | mean ms | p95 ms |\n| --- | ---: | ---: | ---: | ---: |');
  for (const [kind, all] of Object.entries(times)) {
    const sorted = [...all].sort((a, b) => a - b);
    const at = (part) => sorted[Math.floor(sorted.length * part)].toFixed(3);
    const mean = (all.reduce((sum, one) => sum + one, 0) / all.length).toFixed(3);
    console.log(`| ${kind} | ${at(0.05)} | ${at(0.5)} | ${mean} | ${at(0.95)} |`);
  }
  console.log('\n| Mann-Whitney | U | z | p | first slower in |\n| --- | ---: | ---: | ---: | ---: |');
  for (const [one, other] of [
    ['unknown', 'wrong'],
    ['unknown', 'disabled'],
    ['wrong', 'disabled'],
  ]) {
    const { u, z, p, larger } = mannWhitney(times[one], times[other]);
    const cells = [u.toFixed(0), z.toFixed(2), p.toPrecision(2), `${(larger * 100).toFixed(1)} %`];
    console.log(`| ${one} and ${other} | ${cells.join(' | ')} |`);
  }
}
