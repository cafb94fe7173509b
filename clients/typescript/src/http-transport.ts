import { isUtf8 } from 'node:buffer';
import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { LookupFunction } from 'node:net';
import { SharedLookups } from './shared-lookups.js';
import { ConnectionError, TimeoutError, type ServiceAnswer, type ServiceRequest, type Transport } from './transport.js';

const CONNECT_TIMEOUT_MS = 500;
/** Ten times the size of a list of 1,000 changes. */
const MAX_ANSWER_BYTES = 1_000_000;
const MAX_CONNECTIONS = 64;

/** HTTP over keep-alive connections: one for polls, one for events, several for questions. It follows no redirect. */
export class HttpTransport implements Transport {
  private readonly agents = new Map<string, http.Agent>();
  private readonly lookups: SharedLookups;
  private isClosed = false;

  /** @param lookup of names; by default that of the operating system */
  constructor(lookup?: LookupFunction) {
    this.lookups = new SharedLookups(lookup);
  }

  send(request: ServiceRequest, signal: AbortSignal): Promise<ServiceAnswer> {
    if (this.isClosed) return Promise.reject(new ConnectionError('The verifier is closed'));
    const isSecure = /^https:/i.test(request.url);
    const { method, headers, body = '' } = request;
    let leaveLookup = (): void => undefined;
    const options: https.RequestOptions = {
      method,
      agent: this.getAgent(isSecure, request),
      signal,
      lookup: (...question) => void (leaveLookup = this.lookups.join(...question)),
      headers: { ...headers, ...(method === 'POST' && { 'Content-Length': String(Buffer.byteLength(body)) }) },
    };
    return new Promise((resolve, reject) => {
      const outgoing = (isSecure ? https : http).request(request.url, options, (response) => {
        receive(response).then(resolve, reject);
      });
      outgoing.on('error', (error) => reject(error instanceof TimeoutError ? error : toConnectionError(error)));
      outgoing.once('close', () => leaveLookup());
      limitConnecting(outgoing);
      outgoing.end(body);
    });
  }

  close(): void {
    this.isClosed = true;
    for (const agent of this.agents.values()) agent.destroy();
  }

  private getAgent(isSecure: boolean, { isPoll = false, timeoutMs }: ServiceRequest): http.Agent {
    const isWaiting = timeoutMs !== undefined;
    const name = `${isSecure} ${isPoll} ${isWaiting}`;
    let agent = this.agents.get(name);
    if (!agent) {
      const options = { keepAlive: true, maxSockets: isPoll || isWaiting ? 1 : MAX_CONNECTIONS };
      agent = isSecure ? new https.Agent(options) : new http.Agent(options);
      this.agents.set(name, agent);
    }
    return agent;
  }
}

function toConnectionError({ code }: NodeJS.ErrnoException): ConnectionError {
  return new ConnectionError('The connection was refused or broken', code);
}

function limitConnecting(outgoing: ClientRequest): void {
  outgoing.on('socket', (socket) => {
    if (!socket.connecting) return;
    const timer = setTimeout(
      () => outgoing.destroy(new TimeoutError('No connection within 500 ms')),
      CONNECT_TIMEOUT_MS,
    );
    const stop = (): void => clearTimeout(timer);
    socket.once('connect', stop).once('close', stop);
  });
}

async function receive(response: IncomingMessage): Promise<ServiceAnswer> {
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > MAX_ANSWER_BYTES) break;
      chunks.push(chunk);
    }
  } catch {
    throw new ConnectionError('The connection broke before the answer was complete');
  }
  return { status: response.statusCode ?? 0, headers: joinHeaders(response.headers), body: toText(chunks, length) };
}

/** @returns empty when the body is too long, or not UTF-8, as JSON must be (RFC 8259 §8.1) */
function toText(chunks: readonly Buffer[], length: number): string {
  if (length > MAX_ANSWER_BYTES) return '';
  const body = Buffer.concat(chunks);
  return isUtf8(body) ? body.toString('utf8') : '';
}

function joinHeaders(headers: http.IncomingHttpHeaders): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]),
  );
}
