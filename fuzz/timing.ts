// Account enumeration by timing: logs in with an unknown address, with a wrong password, to a disabled account, and with a
// wrong password to an account with a second factor, in turn, and compares the times; and asks for a link to reset the
// password of such accounts. The figures are printed and not asserted, because a shared machine is too noisy.
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { TOTP } from 'otpauth';
import { z } from 'zod';
import { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';
import { mannWhitney } from './mann-whitney.js';
import { Client } from './send.js';
import { FuzzedService } from './service.js';

const USAGE = `Usage: npm run timing -- [--rounds N] [--cost C] [--short]

  --rounds N  number of calls of each kind (default 1500)
  --cost C    BCRYPT_COST of the service (default 8)
  --short     1000 rounds at cost 4: about 15 seconds
  --help      print this text`;

const ACCOUNTS = 20;
const WARM_UP_ROUNDS = 50;
const PROGRESS_ROUNDS = 250;
const PASSWORD = 'a perfectly fine passphrase';
/** Of the same length. */
const WRONG_PASSWORD = 'a perfectly wrong passphrase';
const KINDS = ['unknown', 'wrong', 'disabled', 'factor'] as const;
const PAIRS = [
  ['unknown', 'wrong'],
  ['unknown', 'disabled'],
  ['wrong', 'disabled'],
  ['wrong', 'factor'],
] as const;

type Kind = (typeof KINDS)[number];
/** Milliseconds. */
type Times = Readonly<Record<Kind, number[]>>;
/** A route that must not tell the kinds of accounts apart. */
interface Route {
  readonly name: string;
  readonly path: string;
  readonly status: number;
  readonly toBody: (kind: Kind, round: number) => object;
}

const ROUTES: readonly Route[] = [
  { name: 'login', path: '/api/v0/auth/login', status: 401, toBody: toCredentials },
  { name: 'reset', path: '/api/v0/auth/password-reset', status: 202, toBody: toLinkRequest },
];
type Recorder = (kind: Kind, milliseconds: number) => void;

const created = z.object({ id: z.string() });
const tokens = z.object({ access_token: z.string() });
const enrolment = z.object({ secret: z.string() });

const { rounds, cost } = readCommandLine(USAGE, () => {
  const { values } = parseArgs({
    options: { rounds: { type: 'string' }, cost: { type: 'string' }, short: { type: 'boolean', default: false } },
  });
  const [wantedRounds, wantedCost] = values.short ? [1_000, 4] : [1_500, 8];
  const options = { rounds: Number(values.rounds ?? wantedRounds), cost: Number(values.cost ?? wantedCost) };
  if (!(options.rounds >= 30 && options.rounds <= 1e6 && options.cost >= 4 && options.cost <= 16))
    throw new Error('30 to 1000000 rounds, cost 4 to 16');
  return options;
});

await Cleanup.around(async (cleanup) => {
  const service = await FuzzedService.start({ cleanup, variables: { BCRYPT_COST: String(cost), LOG_LEVEL: 'info' } });
  const client = new Client(service.port);
  cleanup.defer(() => client.close());
  await makeAccounts(client, service.adminKey);
  for (const route of ROUTES) print(route, await measure(client, route));
});

async function measure(client: Client, route: Route): Promise<Times> {
  const times: Times = { unknown: [], wrong: [], disabled: [], factor: [] };
  for (let round = 0; round < WARM_UP_ROUNDS; round += 1)
    await callInRandomOrder(client, route, round, () => undefined);
  for (let round = 0; round < rounds; round += 1) {
    await callInRandomOrder(client, route, round, (kind, milliseconds) => times[kind].push(milliseconds));
    if (round % PROGRESS_ROUNDS === 0) process.stderr.write(`${route.name}: round ${round} of ${rounds}\n`);
  }
  return times;
}

async function makeAccounts(client: Client, adminKey: string): Promise<void> {
  const admin = async (method: string, path: string, body: object): Promise<unknown> => {
    const { status, json } = await client.json(method, path, { headers: { 'X-Admin-Key': adminKey }, body });
    if (status >= 300) throw new Error(`${method} ${path} answered ${status}`);
    return json;
  };
  const create = async (email: string): Promise<string> =>
    created.parse(await admin('POST', '/api/v0/admin/users', { email, password: PASSWORD })).id;
  for (let number = 0; number < ACCOUNTS; number += 1) {
    await create(emailOf('active', number));
    const id = await create(emailOf('closed', number));
    await admin('PATCH', `/api/v0/admin/users/${id}`, { is_active: false });
    await create(emailOf('factor', number));
    await enrolTotp(client, emailOf('factor', number));
  }
}

/** From now on a login of the account needs a code. */
async function enrolTotp(client: Client, email: string): Promise<void> {
  const post = async (path: string, body: object, headers = {}): Promise<unknown> => {
    const { status, json } = await client.json('POST', path, { headers, body });
    if (status >= 300) throw new Error(`POST ${path} answered ${status}`);
    return json;
  };
  const { access_token } = tokens.parse(await post('/api/v0/auth/login', { email, password: PASSWORD }));
  const bearer = { Authorization: `Bearer ${access_token}` };
  const { secret } = enrolment.parse(await post('/api/v0/users/me/totp', { password: PASSWORD }, bearer));
  await post('/api/v0/users/me/totp/confirm', { code: new TOTP({ secret }).generate() }, bearer);
}

/** All addresses have the same length. */
function emailOf(name: 'absent' | 'active' | 'closed' | 'factor', round: number): string {
  return `${name}-${String(round % ACCOUNTS).padStart(4, '0')}@example.org`;
}

function toCredentials(kind: Kind, round: number): object {
  if (kind === 'unknown') return { email: emailOf('absent', round), password: WRONG_PASSWORD };
  if (kind === 'wrong') return { email: emailOf('active', round), password: WRONG_PASSWORD };
  if (kind === 'factor') return { email: emailOf('factor', round), password: WRONG_PASSWORD };
  // The correct password: whether an account is disabled is only checked after the password was verified.
  return { email: emailOf('closed', round), password: PASSWORD };
}

/** Meanwhile the worker mails to the accounts of the kinds `wrong` and `factor` alone. */
function toLinkRequest(kind: Kind, round: number): object {
  return {
    email: emailOf(
      ({ unknown: 'absent', wrong: 'active', disabled: 'closed', factor: 'factor' } as const)[kind],
      round,
    ),
  };
}

/** One call of each kind in random order, one after the other, so that noise affects all kinds alike. */
async function callInRandomOrder(client: Client, route: Route, round: number, record: Recorder): Promise<void> {
  const left: Kind[] = [...KINDS];
  while (left.length > 0) {
    for (const kind of left.splice(randomInt(left.length), 1)) {
      const body = route.toBody(kind, round);
      const startedAt = performance.now();
      const { status } = await client.json('POST', route.path, { headers: {}, body });
      const milliseconds = performance.now() - startedAt;
      if (status !== route.status) throw new Error(`A ${route.name} of the kind "${kind}" answered ${status}`);
      record(kind, milliseconds);
    }
  }
}

function print({ name }: Route, times: Times): void {
  console.log(`\n${name}: Node ${process.version}, bcrypt cost ${cost}, ${rounds} calls of each kind, in turn\n`);
  printTable(
    [name, 'p5 ms', 'median ms', 'mean ms', 'p95 ms'],
    KINDS.map((kind) => {
      const mean = times[kind].reduce((sum, one) => sum + one, 0) / times[kind].length;
      const [p5, median, p95] = [0.05, 0.5, 0.95].map((share) => percentile(times[kind], share));
      return [kind, ...[p5, median, mean, p95].map((value) => formatFigure(value, 3))];
    }),
  );
  console.log();
  printTable(
    ['Mann-Whitney', 'U', 'z', 'p', 'first slower in'],
    PAIRS.map(([one, other]) => {
      const { u, z: score, p, larger } = mannWhitney(times[one], times[other]);
      const name = `${one} and ${other}`;
      return [name, u.toFixed(0), score.toFixed(2), p.toPrecision(2), `${(larger * 100).toFixed(1)} %`];
    }),
  );
}
