import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import autocannon from 'autocannon';
import { cpuOf } from './processes.js';
import { CONNECTIONS, percentile } from './shared.js';

const SETTLE_MS = 1_000;
const LEAST_FLOOD_SECONDS = 6;
/** A stream that leaves the machine to the logins: 16 callers who rest between two validations. */
const STREAM = { callers: 16, restMs: 20 };
/** How often prom-client looks at the event loop. What it shows is the time between two looks. */
const LOOK_MS = 10;

/**
 * As many requests as can be answered.
 * @param requestsOf given a connection's number, the requests that it sends in turn
 * @param setupClient instead of it, where a request depends on the answer before
 */
export function overHttp({ name, pid, prepare, requestsOf, setupClient, connections = CONNECTIONS, ...rest }) {
  const load = async (duration) => {
    await prepare?.();
    let connection = 0;
    const setUp = requestsOf ? (client) => client.setRequests(requestsOf(connection++)) : setupClient;
    const before = cpuOf(pid);
    const result = await autocannon({ connections, duration, ...(setUp && { setupClient: setUp }), ...rest });
    const cpu = (cpuOf(pid) - before) / result['2xx'];
    const bad = result.non2xx + result.errors + result.timeouts;
    if (bad > 0) throw new Error(`${name}: ${bad} answers were not what was measured`);
    return { throughput: result['2xx'] / result.duration, p50: result.latency.p50, p99: result.latency.p99, cpu };
  };
  return { name, load };
}

/**
 * Logins without a pause: alone, for their throughput; then beside a stream of validations, whose p99 is compared with
 * that of the same stream before the flood. The event loop is watched all the while.
 */
export function loginFlood({ name, logins, validation, pid, metricsUrl, connections }) {
  const load = async (seconds) => {
    const length = Math.max(seconds, LEAST_FLOOD_SECONDS) * 1_000;
    const quiet = await stream(validation, length);
    await eventLoopDelay(metricsUrl);
    const flood = startFlood(logins, connections);
    await sleep(SETTLE_MS);
    const alone = await flood.during(pid, () => sleep(length));
    let busy;
    const beside = await flood.during(pid, async () => (busy = await stream(validation, length)));
    await flood.stop();
    const [quietP99, floodP99] = [quiet, busy].map((latencies) => percentile(latencies, 0.99));
    const delayMs = await eventLoopDelay(metricsUrl);
    return { ...alone, beside: beside.throughput, quietP99, floodP99, p99Ratio: floodP99 / quietP99, delayMs };
  };
  return { name, load };
}

/** Counted between two moments of the flood, so that what is half done at either end weighs nothing. */
function startFlood(logins, connections) {
  const agent = new Agent({ keepAlive: true });
  let latencies = [];
  let isOver = false;
  const repeat = async (first) => {
    for (let turn = first; !isOver; turn += connections) {
      const startedAt = performance.now();
      await call(agent, logins[turn % logins.length]);
      latencies.push(performance.now() - startedAt);
    }
  };
  const all = Promise.all(Array.from({ length: connections }, (_, index) => repeat(index)));
  return {
    during: async (pid, meanwhile) => {
      latencies = [];
      const [startedAt, before] = [performance.now(), cpuOf(pid)];
      await meanwhile();
      const count = latencies.length;
      const throughput = (count * 1_000) / (performance.now() - startedAt);
      const [p50, p99] = [0.5, 0.99].map((share) => percentile(latencies, share));
      return { throughput, p50, p99, cpu: (cpuOf(pid) - before) / count };
    },
    stop: async () => {
      isOver = true;
      await all;
      agent.destroy();
    },
  };
}

async function stream(validation, lengthMs) {
  const agent = new Agent({ keepAlive: true });
  const endsAt = performance.now() + lengthMs;
  const latencies = [];
  const repeat = async () => {
    await sleep(Math.random() * STREAM.restMs);
    // The first one opens the connection.
    for (let isFirst = true; performance.now() < endsAt; isFirst = false) {
      const startedAt = performance.now();
      await call(agent, validation);
      if (!isFirst) latencies.push(performance.now() - startedAt);
      await sleep(STREAM.restMs);
    }
  };
  await Promise.all(Array.from({ length: STREAM.callers }, repeat));
  agent.destroy();
  return latencies;
}

/** @returns how late the event loop came at worst since it was asked last, in milliseconds */
async function eventLoopDelay(metricsUrl) {
  const text = await (await fetch(metricsUrl)).text();
  const [, seconds] = /^platform_auth_nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text) ?? [];
  return Number(seconds) * 1_000 - LOOK_MS;
}

function call(agent, { url, method, headers, body = '' }) {
  return new Promise((resolve, reject) => {
    const sent = request(url, { agent, method, headers: { ...headers, 'Content-Length': Buffer.byteLength(body) } });
    sent.once('response', (response) => {
      response.resume().once('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${url} answered ${response.statusCode}`));
      });
    });
    sent.once('error', reject).end(body);
  });
}
