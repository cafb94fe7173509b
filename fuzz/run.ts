// Sends requests generated from the service's own OpenAPI document: valid, nearly valid and hostile, at all doors.
// docs/fuzzing.md has the invariants and how to read a failure. Loopback only; stops by itself.
import { Cleanup } from '../tools/cleanup.js';
import { Actors } from './actors.js';
import { LogWatch } from './canaries.js';
import { judgeCost } from './cost.js';
import { createConsoleLane } from './console-pages.js';
import { ApiDocument } from './document.js';
import { Judge } from './judge.js';
import { createHttpLane, toRunnable, type RunnableLane, type Tools } from './lane.js';
import { MemoryWatch } from './memory.js';
import { readOptions, SHORT_REQUESTS } from './options.js';
import { judgeUnread, createPipelineLane } from './pipelines.js';
import { createRawLane } from './raw-http.js';
import { printCounts, printVerdicts, showProgress } from './report.js';
import { createRequest, createStrayRequest } from './requests.js';
import { Client } from './send.js';
import { FuzzedService } from './service.js';

const SHORT_SENDING_MS = 25_000;
const SHORT_RESTS = 5;
/** After this number of requests the service is warm: its code is compiled and its heap has grown. */
const WARM_UP_REQUESTS = 4_000;
const WARM_UP_SHARE = 0.2;
/** Each malformed request needs its own connection and waits for a silence. */
const RAW_SHARE = 0.2;
/** Each pipeline is a connection with up to 300 requests. */
const PIPELINE_SHARE = 0.1;
/** About every third request is valid, so that one of these succeeds unless the operation cannot. */
const REQUESTS_TO_REACH = 60;
const REACHING_MS = 10_000;
// A cheap hash, so that bcrypt does not limit the rate; a short queue, so that it fills up; a small heap, so that V8
// collects garbage early and a leak is visible. The metadata of RFC 8414 has an issuer with https.
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

/** Warms the service up and sends everything. A run of chosen lanes judges only them. */
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
    // After the memory was judged, because these use bounded memory that is not a leak.
    verdicts.set('answers that are not read', await judgeUnread(service));
    verdicts.set('the cost of one request', await judgeCost(service));
  }
  return memory;
}

/**
 * All lanes share the accounts and end each other's sessions, so each operation that has not succeeded is tried again,
 * alone. Requests that all fail at the first check would test little.
 *
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
