import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { readCpuMicroseconds } from '../tools/process-usage.js';
import { percentile } from '../tools/statistics.js';
import { itemOf, type HttpRequest } from './loads.js';
import type { Contestant, Sample } from './measure.js';
import type { Service } from './testbed.js';

const SETTLE_DELAY_MS = 1_000;
const MIN_FLOOD_SECONDS = 6;
/** A light stream that leaves the CPU to the logins: 16 callers that pause between two validations. */
const STREAM = { callers: 16, restMs: 20 };
/** The interval of prom-client's event loop monitor, whose figures include one interval. */
const LAG_INTERVAL_MS = 10;

interface LoginFlood {
  readonly name: string;
  readonly service: Service;
  readonly logins: readonly HttpRequest[];
  readonly validation: HttpRequest;
  readonly connections: number;
}

/**
 * Measures logins without a pause: first alone, for their throughput; then beside a stream of validations, whose p99 is
 * compared with that of the same stream before the flood.
 */
export function createLoginFlood({ name, service, logins, validation, connections }: LoginFlood): Contestant {
  const load = async (seconds: number): Promise<Sample> => {
    const lengthMs = Math.max(seconds, MIN_FLOOD_SECONDS) * 1_000;
    const quietP99 = percentile(await stream(service, validation, lengthMs), 0.99);
    await readEventLoopDelay(service);
    const flood = new Flood(service, logins, connections);
    await sleep(SETTLE_DELAY_MS);
    const alone = await flood.during(() => sleep(lengthMs));
    let floodP99 = NaN;
    const beside = await flood.during(async () => {
      floodP99 = percentile(await stream(service, validation, lengthMs), 0.99);
    });
    await flood.stop();
    const delayMs = await readEventLoopDelay(service);
    return { ...alone, beside: beside.throughput, quietP99, floodP99, p99Ratio: floodP99 / quietP99, delayMs };
  };
  return { name, load };
}

/** Measures between two moments of the flood, so that requests cut off at either end do not matter. */
class Flood {
  private readonly agent = new Agent({ keepAlive: true });
  private readonly callers: Promise<unknown>;
  private latencies: number[] = [];
  private isOver = false;

  constructor(
    private readonly service: Service,
    private readonly logins: readonly HttpRequest[],
    connections: number,
  ) {
    const callers = Array.from({ length: connections }, (_, first) => this.repeat(first, connections));
    this.callers = Promise.all(callers);
    // `during` or `stop` throws a failure, whichever comes next.
    this.callers.catch(() => undefined);
  }

  async during(task: () => Promise<void>): Promise<{ throughput: number; p50: number; p99: number; cpu: number }> {
    this.latencies = [];
    const startedAt = performance.now();
    const cpuBefore = readCpuMicroseconds(this.service.pid);
    await Promise.race([task(), this.callers]);
    const count = this.latencies.length;
    const throughput = (count * 1_000) / (performance.now() - startedAt);
    const [p50, p99] = [percentile(this.latencies, 0.5), percentile(this.latencies, 0.99)];
    return { throughput, p50, p99, cpu: (readCpuMicroseconds(this.service.pid) - cpuBefore) / count };
  }

  async stop(): Promise<void> {
    this.isOver = true;
    await this.callers;
    this.agent.destroy();
  }

  private async repeat(first: number, step: number): Promise<void> {
    for (let turn = first; !this.isOver; turn += step) {
      const login = itemOf(this.logins, turn % this.logins.length);
      const startedAt = performance.now();
      await send(this.agent, this.service, login);
      this.latencies.push(performance.now() - startedAt);
    }
  }
}

/** @returns the latencies in milliseconds */
async function stream(service: Service, validation: HttpRequest, lengthMs: number): Promise<number[]> {
  const agent = new Agent({ keepAlive: true });
  const endsAt = performance.now() + lengthMs;
  const latencies: number[] = [];
  const repeat = async (): Promise<void> => {
    await sleep(Math.random() * STREAM.restMs);
    // The first validation only opens the connection.
    for (let isFirst = true; performance.now() < endsAt; isFirst = false) {
      const startedAt = performance.now();
      await send(agent, service, validation);
      if (!isFirst) latencies.push(performance.now() - startedAt);
      await sleep(STREAM.restMs);
    }
  };
  await Promise.all(Array.from({ length: STREAM.callers }, repeat));
  agent.destroy();
  return latencies;
}

/** @returns the longest delay of the event loop since the last call, in milliseconds */
async function readEventLoopDelay({ metricsUrl }: Service): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  const [, seconds] = /^platform_auth_nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(text) ?? [];
  return Number(seconds) * 1_000 - LAG_INTERVAL_MS;
}

function send(agent: Agent, { url }: Service, { method, path = '/', headers, body = '' }: HttpRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    const all = { ...headers, 'Content-Length': Buffer.byteLength(body) };
    const sent = request(url + path, { agent, method, headers: all });
    sent.once('response', (response) => {
      response.resume().once('end', () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`${url}${path} answered ${response.statusCode ?? 'nothing'}`));
      });
    });
    sent.once('error', reject).end(body);
  });
}
