// Sends requests generated from the service's own OpenAPI document: valid, nearly valid and hostile, at all doors.
// docs/fuzzing.md has the invariants and explains how to read a failure. It runs on loopback, and stops by itself.
import { parseArgs } from 'node:util';
import { Cleanup } from '../tools/cleanup.js';
import { Actors } from './actors.js';
import { LogWatch } from './canaries.js';
import { judgeCost } from './cost.js';
import { createConsoleLane } from './console-pages.js';
import { ApiDocument } from './document.js';
import { Judge } from './judge.js';
import { createHttpLane, toRunnable, type RunnableLane, type Tools } from './lane.js';
import { MemoryWatch, FuzzedService } from './service.js';
import { judgeUnread, createPipelineLane, createRawLane } from './pipelines.js';
import { printCounts, printVerdicts, showProgress } from './report.js';
import { createRequest, createStrayRequest } from './requests.js';
import { Client } from './send.js';
import { readCommandLine } from '../tools/command-line.js';

const USAGE = `Usage: npm run fuzz -- [--requests N] [--seed S] [--short] [--only TEXT]

  --requests N  number of requests over all operations (default 100000)
  --seed S      an integer; the same seed generates the same requests (default: the time)
  --short       at most a minute: 8000 requests, or fewer when the time is up
  --only TEXT   only lanes whose name contains this text, such as 'POST /api/v0/auth/login'
  --help        print this text`;

const DEFAULT_REQUESTS = 100_000;
const SHORT_REQUESTS = 8_000;

interface Options {
  readonly requests: number;
  readonly seed: number;
  readonly short: boolean;
  /** Runs only lanes whose name contains this text; empty runs all. */
  readonly only: string;
}

/** Reads the command line. Ends the process after --help or an invalid option. */
function readOptions(): Options {
  return readCommandLine(USAGE, () => {
    const { values } = parseArgs({
      options: {
        requests: { type: 'string' },
        seed: { type: 'string', default: String(Math.trunc(Date.now() / 1000) % 2 ** 31) },
        short: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
      },
    });
    const requests = Number(values.requests ?? (values.short ? SHORT_REQUESTS : DEFAULT_REQUESTS));
    const seed = Number(values.seed);
    if (!Number.isSafeInteger(requests) || requests < 1) throw new Error('--requests must be a positive integer');
    if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 31) throw new Error('--seed must be a 32-bit integer');
    return { requests, seed, short: values.short, only: values.only };
  });
}

const SHORT_SENDING_MS = 25_000;
const SHORT_RESTS = 5;
/** After this number of requests the service is warm: its code is compiled and its heap has grown. */
const WARM_UP_REQUESTS = 4_000;
const WARM_UP_SHARE = 0.2;
/** Small, because each malformed request needs its own connection and waits for a silence. */
const RAW_SHARE = 0.2;
/** Small, because each pipeline is a connection with up to 300 requests. */
const PIPELINE_SHARE = 0.1;
/** About every third request is valid, so this many reach every operation that can succeed. */
const REQUESTS_TO_REACH = 60;
const REACHING_MS = 10_000;
// A cheap hash, so that bcrypt does not limit the rate; a short queue, so that it fills up; a small heap, so that a
// leak is visible. The metadata of RFC 8414 needs an https issuer.
const START = {
  variables: { CONSOLE: 'on', LOG_LEVEL: 'debug', BCRYPT_COST: '4', JWT_ISSUER: 'https://auth.example.org' },
  settings: { hashThreads: 2, hashQueueLimit: 4 },
  flags: ['--max-old-space-size=128'],
};

interface Part {
  readonly total: number;
  readonly seed: number;
  readonly deadline: number;
}

const { requests, seed, short, only } = readOptions();
const isWhole = only === '';

await Cleanup.around(async (cleanup) => {
  const watch = new LogWatch();
  const service = await FuzzedService.start({ cleanup, ...START, onLine: (line) => watch.read(line) });
  watch.secrets = service.secrets;
  const client = new Client(service.port);
  cleanup.defer(() => client.close());
  const progress = { requests: 0 };
  cleanup.defer(showProgress(progress, requests));
  const document = new ApiDocument((await client.json('GET', '/docs-json', { headers: {} })).json);
  const judge = new Judge(document);
  const actors = new Actors(client, service.adminKey);
  const lanes = makeLanes(document, service, { client, actors, judge, progress });
  if (lanes.length === 0) throw new Error(`No lane has ${only} in its name`);

  const verdicts = new Map<string, string | undefined>();
  const memory = await runLanes(lanes, { service, verdicts, judge });
  verdicts.set('the log', watch.leaks.length > 0 ? watch.leaks.join('\n  ') : undefined);
  verdicts.set('the process', service.exit);
  printCounts(judge, { seed, requests: progress.requests, lines: watch.lines, memory });
  process.exitCode = printVerdicts(verdicts);
});

function makeLanes(document: ApiDocument, service: FuzzedService, tools: Tools): RunnableLane[] {
  const { operations } = document;
  const lanes = [
    ...operations.map((operation) => toRunnable(createHttpLane(operation.id, createRequest(operation), tools))),
    toRunnable(createHttpLane('paths that lead nowhere', createStrayRequest(operations), tools)),
    toRunnable(createConsoleLane(tools.client, service.adminKey, tools.progress)),
    toRunnable(createRawLane(service.port, tools.progress), RAW_SHARE),
    toRunnable(createPipelineLane(service.port, tools.progress), PIPELINE_SHARE),
  ];
  return lanes.filter(({ name }) => name.includes(only));
}

/** Warms the service up and runs the lanes. A run of chosen lanes judges only these. */
async function runLanes(
  lanes: readonly RunnableLane[],
  { service, verdicts, judge }: { service: FuzzedService; verdicts: Map<string, string | undefined>; judge: Judge },
): Promise<MemoryWatch> {
  const memory = new MemoryWatch(service);
  const deadline = short ? Date.now() + SHORT_SENDING_MS : Infinity;
  const warmUp = isWhole ? Math.min(requests / 2, Math.max(WARM_UP_REQUESTS, requests * WARM_UP_SHARE)) : 0;
  if (isWhole) await send(lanes, verdicts, { total: warmUp, seed: seed - 1, deadline });
  memory.warmedUp();
  await send(lanes, verdicts, { total: requests - warmUp, seed, deadline });
  if (isWhole && requests >= SHORT_REQUESTS / 2) verdicts.set('coverage', await reachAll(lanes, verdicts, judge));
  if (isWhole) {
    verdicts.set('memory', await memory.judge(short ? SHORT_RESTS : undefined));
    // Runs after the memory was judged, because it uses bounded memory that is not a leak.
    verdicts.set('answers that are not read', await judgeUnread(service));
    verdicts.set('the cost of one request', await judgeCost(service));
  }
  return memory;
}

/**
 * Lanes end each other's sessions, so each operation that has not succeeded is tried again, alone. An operation whose
 * requests all fail at the first check would test little.
 * @returns which operations never succeeded, or undefined
 */
async function reachAll(
  lanes: readonly RunnableLane[],
  verdicts: Map<string, string | undefined>,
  judge: Judge,
): Promise<string | undefined> {
  for (const lane of lanes.filter(({ name }) => judge.unreached.includes(name))) {
    await send([lane], verdicts, { total: REQUESTS_TO_REACH, seed: seed + 1, deadline: Date.now() + REACHING_MS });
  }
  return judge.unreached.length > 0 ? `never succeeded: ${judge.unreached.join(', ')}` : undefined;
}

/** Runs all lanes at once, each with its share of the requests. A lane that has failed is not run again. */
async function send(
  lanes: readonly RunnableLane[],
  verdicts: Map<string, string | undefined>,
  part: Part,
): Promise<void> {
  const shares = lanes.reduce((sum, { share }) => sum + share, 0);
  const timeLimitMs = short ? Math.max(1, part.deadline - Date.now()) : undefined;
  const run = async (lane: RunnableLane): Promise<void> => {
    if (verdicts.get(lane.name) !== undefined) return;
    const runs = Math.ceil((part.total * lane.share) / shares);
    verdicts.set(lane.name, await lane.run({ seed: part.seed, runs, timeLimitMs }));
  };
  await Promise.all(lanes.map(run));
}
