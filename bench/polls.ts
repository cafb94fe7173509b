// What verifiers that poll cost a replica.
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { readCpuMicroseconds } from '../tools/process-usage.js';
import type { Contestant } from './measure.js';
import { LEASE_MS } from './targets.js';
import type { Target } from './testbed.js';
import type { OwnKey } from './work-messages.js';

/** As the verifiers poll: every third of the lease, up to a fifth earlier (clients/typescript/src/poller.ts). */
const INTERVAL_MS = LEASE_MS / 3;
const JITTER = 0.2;
const SETTLE_MS = 1_000;

const pollAnswer = z.object({ cursor: z.string() });

interface Polling {
  readonly name: string;
  /** Each with a connection of its own. */
  readonly verifiers: number;
  readonly service: Target;
  readonly own: OwnKey;
}

/** The CPU of the service while they poll, without what it takes when they do not. */
export function createPolling({ name, verifiers, service, own }: Polling): Contestant {
  const load = async (seconds: number) => {
    const idle = await measureCore(service, seconds);
    const over = new AbortController();
    let polls = 0;
    const agents = Array.from({ length: verifiers }, () => new http.Agent({ keepAlive: true, maxSockets: 1 }));
    const polling = agents.map((agent) => pollUntil(over.signal, own, agent, () => (polls += 1)));
    // The connections and the first polls, which bring a reset, are not what a poll costs.
    await sleep(SETTLE_MS);
    polls = 0;
    const busy = await measureCore(service, seconds);
    const throughput = polls / seconds;
    over.abort();
    await Promise.all(polling);
    for (const agent of agents) agent.destroy();
    return { core: Math.max(0, busy - idle), throughput };
  };
  return { name, load };
}

/** @returns percent of one core */
async function measureCore({ pid }: Target, seconds: number): Promise<number> {
  const startedAt = performance.now();
  const before = readCpuMicroseconds(pid);
  await sleep(seconds * 1_000);
  return (readCpuMicroseconds(pid) - before) / (10 * (performance.now() - startedAt));
}

async function pollUntil(over: AbortSignal, own: OwnKey, agent: http.Agent, onPoll: () => void): Promise<void> {
  let cursor: string | undefined;
  await sleep(Math.random() * INTERVAL_MS);
  while (!over.aborted) {
    const dueAt = performance.now() + INTERVAL_MS * (1 - JITTER * Math.random());
    const answer = await poll(own, agent, JSON.stringify({ cursor }));
    if (answer !== undefined) {
      ({ cursor } = pollAnswer.parse(JSON.parse(answer)));
      onPoll();
    }
    await sleep(Math.max(0, dueAt - performance.now()));
  }
}

/** @returns undefined without an answer: on a busy machine the service may lose its own lease */
function poll({ url, appId, appKey }: OwnKey, agent: http.Agent, body: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const headers = {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'X-Platform-App-Id': appId,
      'X-Platform-App-Key': appKey,
    };
    const request = http.request(`${url}/internal/changes`, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve(response.statusCode === 200 ? text : undefined));
    });
    request.on('error', () => resolve(undefined)).end(body);
  });
}
