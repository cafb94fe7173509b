// Account enumeration by timing or answer: calls each route of timing-routes.ts with accounts of several kinds in turn,
// and compares the times. It prints times without judging them, because a shared machine is too noisy; an answer that
// tells the kinds apart fails the run.
import { randomInt } from 'node:crypto';
import { parseArgs } from 'node:util';
import { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { percentile } from '../tools/statistics.js';
import { formatFigure, printTable } from '../tools/table.js';
import { mannWhitney } from './mann-whitney.js';
import { Client, type Answer } from './send.js';
import { FuzzedService } from './service.js';
import { listKinds, prepareRoutes, type Kind, type Route, type TimedRequest } from './timing-routes.js';

const USAGE = `Usage: npm run timing -- [--rounds N] [--cost C] [--short] [--only NAME]...

  --rounds N   number of calls of each kind (default 1500)
  --cost C     BCRYPT_COST of the service (default 8)
  --short      30 rounds at cost 4, which compare the answers: too few for times, and less than a minute
  --only NAME  measure only this route: login, reset, verification, registration, challenge, enrolment or
               household; may be repeated
  --help       print this text`;

const WARM_UP_ROUNDS = 50;
const PROGRESS_ROUNDS = 250;
/** Differs in every answer, in its header and in its body. */
const REQUEST_ID = 'x-request-id';
/** These differ in every answer; `ratelimit` counts the remaining calls of the network. */
const VARYING_HEADERS = new Set([REQUEST_ID, 'ratelimit', 'date']);

/** In milliseconds. */
type Times = ReadonlyMap<Kind, number[]>;
type Recorder = (kind: Kind, milliseconds: number) => void;

const { rounds, cost, only } = readCommandLine(USAGE, () => {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string' },
      cost: { type: 'string' },
      short: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
    },
  });
  const [wantedRounds, wantedCost] = values.short ? [30, 4] : [1_500, 8];
  const options = { rounds: Number(values.rounds ?? wantedRounds), cost: Number(values.cost ?? wantedCost) };
  if (!(options.rounds >= 30 && options.rounds <= 1e6 && options.cost >= 4 && options.cost <= 16))
    throw new Error('30 to 1000000 rounds, cost 4 to 16');
  return { ...options, only: values.only };
});

await Cleanup.around(async (cleanup) => {
  const service = await FuzzedService.start({ cleanup, variables: { BCRYPT_COST: String(cost), LOG_LEVEL: 'info' } });
  const client = new Client(service.port);
  cleanup.defer(() => client.close());
  const routes = await prepareRoutes(service, client);
  const measured = routes.filter(({ name }) => only.length === 0 || only.some((part) => name.startsWith(part)));
  for (const route of measured) print(route, await measure(client, route));
  // Every route passed, because one with different answers ends the run.
  console.log(`\n${measured.length} passed, 0 failed`);
});

async function measure(client: Client, route: Route): Promise<Times> {
  const times: Times = new Map(listKinds(route).map((kind) => [kind, []]));
  for (let round = 0; round < WARM_UP_ROUNDS; round += 1)
    await callInRandomOrder(client, route, round, () => undefined);
  for (let round = 0; round < rounds; round += 1) {
    await callInRandomOrder(client, route, round, (kind, milliseconds) => times.get(kind)?.push(milliseconds));
    if (round % PROGRESS_ROUNDS === 0) process.stderr.write(`${route.name}: round ${round} of ${rounds}\n`);
  }
  return times;
}

/**
 * Calls once for each kind in random order, one after the other, so that noise affects all kinds alike.
 * @throws when the answers differ
 */
async function callInRandomOrder(client: Client, route: Route, round: number, record: Recorder): Promise<void> {
  const answers = new Map<string, Kind>();
  const left = listKinds(route);
  while (left.length > 0) {
    for (const kind of left.splice(randomInt(left.length), 1)) {
      const { answer, milliseconds } = await call(client, route.name, route.toRequest(kind, round));
      if (answer.status !== route.status)
        throw new Error(`A call of ${route.name} of the kind "${kind}" answered ${answer.status}`);
      answers.set(toComparable(answer), kind);
      record(kind, milliseconds);
    }
  }
  if (answers.size > 1)
    throw new Error(`${route.name} tells kinds apart: ${JSON.stringify([...answers], undefined, 2)}`);
}

async function call(
  client: Client,
  name: string,
  { method, path, headers: own = {}, body }: TimedRequest,
): Promise<{ answer: Answer; milliseconds: number }> {
  const bytes = body && Buffer.from(JSON.stringify(body));
  const headers = Object.entries({ ...own, ...(bytes && { 'Content-Type': 'application/json' }) });
  const startedAt = performance.now();
  const answer = await client.send({ method, target: path, headers, body: bytes, chunked: false });
  const milliseconds = performance.now() - startedAt;
  if ('failure' in answer) throw new Error(`${name}: ${answer.failure}`);
  return { answer, milliseconds };
}

/** @returns the answer without the parts that always differ */
function toComparable({ status, headers, body }: Answer): string {
  const requestId = headers[REQUEST_ID];
  const compared = Object.entries(headers).map(([name, value]) => (VARYING_HEADERS.has(name) ? [name] : [name, value]));
  return JSON.stringify([status, compared, typeof requestId === 'string' ? body.replaceAll(requestId, '…') : body]);
}

function print({ name, pairs }: Route, times: Times): void {
  console.log(`\n${name}: Node ${process.version}, bcrypt cost ${cost}, ${rounds} calls of each kind, in turn\n`);
  printTable(
    [name, 'p5 ms', 'median ms', 'mean ms', 'p95 ms'],
    [...times].map(([kind, measured]) => {
      const mean = measured.reduce((sum, one) => sum + one, 0) / measured.length;
      const [p5, median, p95] = [0.05, 0.5, 0.95].map((share) => percentile(measured, share));
      return [kind, ...[p5, median, mean, p95].map((value) => formatFigure(value, 3))];
    }),
  );
  console.log();
  printTable(
    ['Mann-Whitney', 'U', 'z', 'p', 'first slower in'],
    pairs.map(([one, other]) => {
      const { u, z: score, p, larger } = mannWhitney(times.get(one) ?? [], times.get(other) ?? []);
      const pair = `${one} and ${other}`;
      return [pair, u.toFixed(0), score.toFixed(2), p.toPrecision(2), `${(larger * 100).toFixed(1)} %`];
    }),
  );
}
