// Sends requests generated from the service's own OpenAPI document: valid, nearly valid and hostile, at all doors.
// docs/fuzzing.md has the invariants and how to read a failure. Loopback only; stops by itself.
import { parseArgs } from 'node:util';
import { Actors } from './actors.js';
import { LogWatch } from './canaries.js';
import { judgeCost } from './cost.js';
import { ApiDocument } from './document.js';
import { Judge } from './judge.js';
import { httpLane, runLane } from './lane.js';
import { MemoryWatch } from './memory.js';
import { judgeUnread, pipelineLane } from './pipelines.js';
import { rawLane } from './raw-http.js';
import { printCounts, printVerdicts, showProgress } from './report.js';
import { requestTo, requestToNowhere } from './requests.js';
import { Client } from './send.js';
import { startService } from './service.js';

const USAGE = `Usage: npm run fuzz -- [--requests N] [--seed S] [--short] [--only TEXT]

  --requests N  number of requests over all operations (default 100000)
  --seed S      an integer; the same seed generates the same requests (default: the time)
  --short       at most a minute: 8000 requests, or fewer when the time is up
  --only TEXT   only lanes whose name contains this text, such as 'POST /api/v0/auth/login'
  --help        print this text`;

const SHORT_REQUESTS = 8_000;
const SHORT_SENDING_MS = 25_000;
const SHORT_RESTS = 5;
/** After this number of requests the service is warm: its code is compiled and its heap has grown. */
const WARM_UP_REQUESTS = 4_000;
const WARM_UP_SHARE = 0.2;
/** Each malformed request needs its own connection and waits for a silence. */
const RAW_SHARE = 0.2;
/** Each pipeline is a connection with up to 300 requests. */
const PIPELINE_SHARE = 0.1;

function options() {
  try {
    const { values } = parseArgs({
      options: {
        requests: { type: 'string' },
        seed: { type: 'string', default: String(Math.trunc(Date.now() / 1000) % 2 ** 31) },
        short: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
        help: { type: 'boolean', default: false },
      },
    });
    const requests = Number(values.requests ?? (values.short ? SHORT_REQUESTS : 100_000));
    const seed = Number(values.seed);
    if (!Number.isSafeInteger(requests) || requests < 1) throw new Error('--requests must be a positive integer');
    if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 31) throw new Error('--seed must be a 32-bit integer');
    return { ...values, requests, seed };
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`);
    process.exit(2);
  }
}

const { requests, seed, short, only, help } = options();
if (help) {
  console.log(USAGE);
  process.exit(0);
}

const watch = new LogWatch();
const service = await startService(
  // A cheap hash, so that bcrypt does not limit the rate; a short queue, so that it fills up; a small heap, so that V8
  // collects garbage early and a leak is visible.
  {
    NODE_OPTIONS: '--max-old-space-size=128',
    LOG_LEVEL: 'debug',
    BCRYPT_COST: '4',
    HASH_THREADS: '2',
    HASH_QUEUE_LIMIT: '4',
  },
  watch.read,
);
watch.secrets = service.secrets;
const client = new Client(service);
const progress = { requests: 0 };
const hideProgress = showProgress(progress, requests);
try {
  const document = new ApiDocument((await client.json('GET', '/docs-json', { headers: {} })).json);
  const judge = new Judge(document);
  const actors = new Actors((...call) => client.json(...call), service.adminKey);
  const lanes = lanesOf(document, { client, actors, judge, progress });
  if (lanes.length === 0) throw new Error(`No lane has ${only} in its name`);

  const verdicts = new Map();
  const memory = new MemoryWatch(service);
  const warmUp = only === '' ? Math.min(requests / 2, Math.max(WARM_UP_REQUESTS, requests * WARM_UP_SHARE)) : 0;
  const deadline = short ? Date.now() + SHORT_SENDING_MS : Infinity;
  if (warmUp > 0) await send(lanes, verdicts, { total: warmUp, seed: seed - 1, deadline });
  memory.warmedUp();
  await send(lanes, verdicts, { total: requests - warmUp, seed, deadline });
  if (warmUp > 0) verdicts.set('memory', await memory.judge(short ? SHORT_RESTS : undefined));

  // After the memory was judged, because these use bounded memory that is not a leak.
  if (warmUp > 0) verdicts.set('answers that are not read', await judgeUnread(service));
  if (warmUp > 0) verdicts.set('the cost of one request', await judgeCost(service));

  hideProgress();
  verdicts.set('the log', watch.leaks.length > 0 ? watch.leaks.join('\n  ') : undefined);
  verdicts.set('the process', service.hasExited() ? `it exited:\n${service.lastLines.join('\n')}` : undefined);
  printCounts(judge, { seed, requests: progress.requests, lines: watch.lines, memory });
  if (only === '' && progress.requests >= SHORT_REQUESTS / 2) verdicts.set('coverage', judge.unreached());
  process.exitCode = printVerdicts(verdicts);
} finally {
  hideProgress();
  client.close();
  await service.stop();
}

function lanesOf(document, tools) {
  const ofOperations = document.operations.map((operation) => httpLane(operation.id, requestTo(operation), tools));
  const others = [
    httpLane('paths that lead nowhere', requestToNowhere(document.operations), tools),
    { ...rawLane(service.port, progress), share: RAW_SHARE },
    { ...pipelineLane(service.port, progress), share: PIPELINE_SHARE },
  ];
  return [...ofOperations, ...others].filter(({ name }) => name.includes(only));
}

/** Runs all lanes at once, each with its share of the requests. A lane that has failed is not run again. */
async function send(all, verdicts, { total, seed: ofPart, deadline }) {
  const shares = all.reduce((sum, { share = 1 }) => sum + share, 0);
  const timeLimitMs = short ? Math.max(1, deadline - Date.now()) : undefined;
  const run = async (lane) => {
    if (verdicts.get(lane.name)) return;
    const runs = Math.ceil((total * (lane.share ?? 1)) / shares);
    verdicts.set(lane.name, await runLane(lane, { seed: ofPart, runs, timeLimitMs }));
  };
  await Promise.all(all.map(run));
}
