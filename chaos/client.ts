import { Agent, request } from 'node:http';

const REQUEST_TIMEOUT_MS = 15_000;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });

export interface Request {
  /** By default POST. */
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
  readonly timeoutMs?: number | undefined;
}

/** From the sending of a request to the arrival of its response. */
export interface Period {
  readonly startedAt: number;
  readonly endedAt: number;
}

export interface Answer extends Period {
  /** A failed connection counts as a status too. */
  readonly status: number | 'network' | 'timeout';
  /** The status as it is counted. A response of the load balancer itself has a label of its own. */
  readonly label: string;
  /** Undefined when it is not JSON. */
  readonly body: unknown;
}

/** The monotonic clock of this process in milliseconds, which orders all requests and verdicts. */
export function now(): number {
  return performance.now();
}

/** Sends one request. Never rejects. */
export function send(
  base: string,
  { method = 'POST', path, headers = {}, body, timeoutMs = REQUEST_TIMEOUT_MS }: Request,
): Promise<Answer> {
  const startedAt = now();
  const text = body === undefined ? undefined : JSON.stringify(body);
  const all = text === undefined ? headers : { ...headers, 'Content-Type': 'application/json' };
  return new Promise((resolve) => {
    const end = (status: Answer['status'], label: string, parsed?: unknown): void => {
      clearTimeout(timer);
      resolve({ status, label, body: parsed, startedAt, endedAt: now() });
    };
    const outgoing = request(base + path, { method, headers: all, agent }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', () => end('network', 'network'));
      response.on('end', () => {
        const { statusCode = 0 } = response;
        const isOurs = response.headers['x-request-id'] !== undefined;
        end(statusCode, isOurs ? String(statusCode) : `balancer ${statusCode}`, parse(Buffer.concat(chunks)));
      });
    });
    const timer = setTimeout(() => {
      end('timeout', 'timeout');
      outgoing.destroy();
    }, timeoutMs);
    outgoing.on('error', () => end('network', 'network'));
    outgoing.end(text);
  });
}

/** Whether the service may still carry the request out. After a 503 it does not. */
export function mayStillHappen({ status }: Answer): boolean {
  return typeof status === 'string' || status === 502 || status === 504;
}

export function closeConnections(): void {
  agent.destroy();
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
