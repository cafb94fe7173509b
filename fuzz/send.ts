import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';

const TIMEOUT_MS = 60_000;

export type Header = readonly [name: string, value: string];

/** A request as it is sent. */
export interface Wire {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly Header[];
  readonly body: Buffer | undefined;
  readonly chunked: boolean;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** There was no complete response. */
export interface Failure {
  readonly failure: string;
}

interface JsonRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
}

export interface JsonAnswer {
  readonly status: number;
  /** Undefined without a body. */
  readonly json: unknown;
}

/** Sends over keep-alive connections, one for each concurrent caller. */
export class Client {
  private readonly agent = new Agent({ keepAlive: true });

  constructor(readonly port: number) {}

  send({ method, target, headers, body, chunked }: Wire): Promise<Answer | Failure> {
    const host: Header = ['Host', `127.0.0.1:${this.port}`];
    const flat = [host, ...headers, ...framingOf(method, body, chunked)].flat();
    const options = { port: this.port, host: '127.0.0.1', method, path: target, headers: flat, agent: this.agent };
    return new Promise((resolve) => {
      const outgoing = httpRequest({ ...options, insecureHTTPParser: false }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', (error) => resolve({ failure: `the answer broke off: ${codeOf(error)}` }));
        answer.on('end', () => {
          clearTimeout(timer);
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks).toString() });
        });
      });
      const timer = setTimeout(() => outgoing.destroy(new Error('no answer in time')), TIMEOUT_MS);
      outgoing.on('error', (error) => {
        clearTimeout(timer);
        resolve({ failure: `no answer: ${codeOf(error)}` });
      });
      if (chunked && body) {
        outgoing.write(body.subarray(0, body.length >> 1));
        outgoing.end(body.subarray(body.length >> 1));
      } else outgoing.end(body);
    });
  }

  /** A regular JSON call, for issuing credentials. */
  async json(method: string, path: string, { headers, body }: JsonRequest): Promise<JsonAnswer> {
    const bytes = body && Buffer.from(JSON.stringify(body));
    const sent: Header[] = Object.entries(headers);
    if (bytes) sent.push(['Content-Type', 'application/json']);
    const answer = await this.send({ method, target: path, headers: sent, body: bytes, chunked: false });
    if ('failure' in answer) throw new Error(`${method} ${path}: ${answer.failure}`);
    return { status: answer.status, json: answer.body ? JSON.parse(answer.body) : undefined };
  }

  close(): void {
    this.agent.destroy();
  }
}

/** Resolves when a socket is closed, whether by an error or not. */
export async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
}

function framingOf(method: string, body: Buffer | undefined, chunked: boolean): Header[] {
  if (body) return [chunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(body.length)]];
  return /^(GET|HEAD)$/.test(method) ? [] : [['Content-Length', '0']];
}

function codeOf(error: NodeJS.ErrnoException): string {
  return error.code ?? error.message;
}
