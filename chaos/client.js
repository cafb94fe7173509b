import { Agent, request } from 'node:http';

const REQUEST_TIMEOUT_MS = 15_000;
const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Milliseconds of the monotonic clock of this process: all requests and verdicts are ordered by it. */
export const now = () => performance.now();

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Sends one request. Never rejects: a failed connection is a status too.
 * @returns {Promise<{ status: number | 'network' | 'timeout', label: string, body: any, startedAt: number, endedAt: number }>}
 *   `label`: the status as it is counted; a response of the load balancer itself has a label of its own
 */
export function ask(base, { method = 'POST', path, headers = {}, body, timeoutMs = REQUEST_TIMEOUT_MS }) {
  const startedAt = now();
  const text = body === undefined ? undefined : JSON.stringify(body);
  const all = text === undefined ? headers : { ...headers, 'Content-Type': 'application/json' };
  return new Promise((resolve) => {
    const end = (status, label, parsed) => {
      clearTimeout(timer);
      resolve({ status, label, body: parsed, startedAt, endedAt: now() });
    };
    const outgoing = request(base + path, { method, headers: all, agent }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', () => end('network', 'network'));
      response.on('end', () => {
        const { statusCode } = response;
        const ours = response.headers['x-request-id'] !== undefined;
        end(statusCode, ours ? String(statusCode) : `balancer ${statusCode}`, parse(Buffer.concat(chunks)));
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

/** Whether the request may still be in flight and be done later. After a 503 the service does not continue it. */
export function mayStillHappen({ status }) {
  return typeof status === 'string' || status === 502 || status === 504;
}

export function closeConnections() {
  agent.destroy();
}

function parse(bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
