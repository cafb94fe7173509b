import autocannon from 'autocannon';
import { readCpuMicroseconds } from '../tools/process-usage.js';
import { CONNECTIONS, type Contestant } from './measure.js';
import type { Target } from './testbed.js';

export type HttpRequest = Pick<autocannon.Request, 'method' | 'path' | 'body'> & {
  readonly headers?: Readonly<Record<string, string>>;
};

interface HttpLoad {
  readonly name: string;
  readonly target: Target;
  /** Runs before each measurement. */
  readonly prepare?: () => Promise<void>;
  /** Sets up one connection: what it sends, and how it handles a response. */
  readonly setupClient?: (client: autocannon.Client, connection: number) => void;
  /** The request of every connection, when all send the same. */
  readonly request?: HttpRequest;
  readonly connections?: number;
  /** The threads of the load generator. With threads, all connections send the same. */
  readonly workers?: number;
}

/** Sends the next request on each connection as soon as the response arrives. */
export function createHttpContestant({
  name,
  target,
  prepare,
  setupClient,
  request,
  ...options
}: HttpLoad): Contestant {
  const { connections = CONNECTIONS, workers } = options;
  const load = async (duration: number) => {
    await prepare?.();
    let connection = 0;
    const before = readCpuMicroseconds(target.pid);
    const result = await autocannon({
      connections,
      duration,
      url: target.url + (request?.path ?? ''),
      ...(request?.method && { method: request.method }),
      ...(request?.headers && { headers: request.headers }),
      ...(request?.body !== undefined && { body: request.body }),
      ...(workers !== undefined && { workers }),
      ...(setupClient && { setupClient: (client: autocannon.Client) => setupClient(client, connection++) }),
    });
    const good = result['2xx'];
    const bad = result.non2xx + result.errors + result.timeouts;
    if (bad > 0) throw new Error(`${name}: ${bad} responses were errors`);
    const cpu = (readCpuMicroseconds(target.pid) - before) / good;
    return { throughput: good / result.duration, p50: result.latency.p50, p99: result.latency.p99, cpu };
  };
  return { name, load };
}

/** Each connection sends its own requests, in turn. */
export function createOwnRequests(name: string, target: Target, requests: readonly HttpRequest[][]): Contestant {
  const setupClient = (client: autocannon.Client, connection: number): void => {
    client.setRequests(itemOf(requests, connection));
  };
  return createHttpContestant({ name, target, setupClient });
}

/**
 * @returns the item for a connection
 * @throws when there are fewer items than connections
 */
export function itemOf<Item>(items: readonly Item[], connection: number): Item {
  const item = items[connection];
  if (item === undefined) throw new Error(`item ${connection} was asked for, of ${items.length}`);
  return item;
}
