// The CLI's HTTP client. `sendRequest` is the only place that opens an HTTP connection: bounded in time, and redirects
// are returned instead of followed, so that a credential reaches only the address it was meant for. `callService` adds
// the body and the errors that an operator reads.
import * as z from 'zod';
import { describeSource } from '../foundation/config/environment.js';
import { replaceControlCharacters } from './tables.js';
import { announceIfSlow, CommandFailedError } from './terminal.js';

const DEFAULT_TIMEOUT_MS = 15_000;
/** Larger than any answer of this service; bounded because a foreign server may send an endless body. */
const MAX_ANSWER_MIB = 16;
const UNTRUSTED_CERTIFICATE = /CERT|SIGNED|SSL|TLS/;
/** With these errors no request was sent, so the service has changed nothing. */
const NEVER_SENT = new RegExp(`^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$|${UNTRUSTED_CERTIFICATE.source}`);

export interface HttpRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: object | undefined;
  readonly timeoutMs?: number;
}

/** Without control characters, because a foreign server may send escape codes of the terminal. */
const text = z.string().transform(replaceControlCharacters);
/** A problem document (RFC 9457): the body of every error response of the service. */
const problemSchema = z.object({
  code: text,
  title: text,
  detail: text,
  request_id: text.optional(),
  /** Present in missing_scope. */
  scopes: z.array(text).optional(),
  errors: z.array(z.object({ pointer: text, detail: text })).optional(),
});
type ProblemBody = z.output<typeof problemSchema>;

interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: unknown;
}

/** The service did not answer a change, so it may or may not have made it. */
const NO_ANSWER = 'no_answer';
/** The server at this address is not this service. */
export const UNEXPECTED = 'unexpected_answer';

/** @param code of a problem of the service, or of this program */
export function isFailure(error: unknown, code: string): error is CommandFailedError {
  return error instanceof CommandFailedError && error.code === code;
}

const TRANSIENT_CODES = new Set(['service_unreachable', 'unavailable', 'too_many_requests']);

/** Whether a command that polls may try again. */
export function isTransient(error: unknown): error is CommandFailedError {
  return error instanceof CommandFailedError && TRANSIENT_CODES.has(error.code);
}

/**
 * Adds what to do next when the service did not answer a change.
 * @param advice that is right whether or not the service made the change
 */
export async function withAdvice<Result>(call: Promise<Result>, advice: string): Promise<Result> {
  try {
    return await call;
  } catch (error) {
    throw isFailure(error, NO_ANSWER) ? new CommandFailedError(`${error.message}\n  ${advice}`, NO_ANSWER) : error;
  }
}

/** Sends one HTTP request and resolves with the response, of any status; the caller reads or cancels its body. */
export async function sendRequest(
  url: string,
  { method = 'GET', headers, body, timeoutMs = DEFAULT_TIMEOUT_MS }: HttpRequest = {},
): Promise<Response> {
  return fetch(url, {
    method,
    headers: { Accept: 'application/json', ...headers, ...(body && { 'Content-Type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
  });
}

/**
 * Calls the service, and says on standard error when the response is slow.
 * @returns the answer, of any status
 * @throws {CommandFailedError} when there is none; with the code `no_answer` when the request may have changed something
 */
export async function callService(url: string, path: string, request: HttpRequest): Promise<Answer> {
  try {
    return await announceIfSlow(`Waiting for ${url}`, sendRequest(url + path, request).then(readAnswer));
  } catch (error) {
    const why = describeFailure(url, error);
    if (request.method === 'GET' || NEVER_SENT.test(readErrorCode(error)))
      throw new CommandFailedError(why, error instanceof AnswerTooLargeError ? UNEXPECTED : 'service_unreachable');
    throw new CommandFailedError(`${why} Whether it was done is not known.`, NO_ANSWER);
  }
}

async function readAnswer(response: Response): Promise<Answer> {
  const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '');
  const body = isJson ? await readJson(response) : await response.body?.cancel();
  return { status: response.status, retryAfter: response.headers.get('retry-after'), body };
}

class AnswerTooLargeError extends Error {
  override readonly name = 'AnswerTooLargeError';
}

/**
 * @throws {SyntaxError} when the body is not JSON
 * @throws {AnswerTooLargeError} as soon as the body exceeds MAX_ANSWER_MIB
 */
export async function readJson({ body }: Response): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > MAX_ANSWER_MIB * 2 ** 20) throw new AnswerTooLargeError();
    chunks.push(chunk);
  }
  return JSON.parse(new TextDecoder().decode(Buffer.concat(chunks)));
}

/** @returns the code of a failed connection, which fetch hides behind "fetch failed"; empty when there is none */
export function readErrorCode(error: unknown): string {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '';
}

function describeFailure(url: string, error: unknown): string {
  const { name } = error as Error;
  const code = readErrorCode(error);
  if (name === 'TimeoutError')
    return `${url} did not answer within ${DEFAULT_TIMEOUT_MS / 1_000} seconds. Look at its /health.`;
  if (name === 'AnswerTooLargeError')
    return `${url} answered with more than ${MAX_ANSWER_MIB} MiB, which this service never does. Correct --url or AUTH_URL.`;
  if (name === 'SyntaxError') return `${url} answered with a body that is not valid JSON.`;
  if (code === 'ECONNREFUSED')
    return `Connection to ${url} refused: is the service running? Start it (\`npm start\`), or correct --url or AUTH_URL.`;
  // fetch gives this error no code (https://fetch.spec.whatwg.org/#port-blocking).
  if (((error as Error).cause as Error | undefined)?.message === 'bad port')
    return `${url} was not called: fetch never connects to this port, which belongs to another protocol. Correct --url or AUTH_URL.`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return `The host of ${url} has no address. Correct --url or AUTH_URL.`;
  if (UNTRUSTED_CERTIFICATE.test(code))
    return `The certificate of ${url} is not trusted (${code}). Name its authority in NODE_EXTRA_CA_CERTS.`;
  return `The connection to ${url} failed${code && ` (${code})`}.`;
}

/** The commands whose lists show the ids of a path below `/api/v0/admin/`. */
const LISTS: Readonly<Record<string, string>> = {
  'app-credentials': 'apps list',
  enrolments: 'nodes enrolments',
  'event-subscriptions': 'events list',
  households: 'households list',
  nodes: 'nodes list',
  operators: 'operators list',
  users: 'users list',
};

/**
 * @param path below `/api/v0/admin/`; empty for other routes
 * @returns the error for a refusal, with what the operator can do about it
 */
export function toServiceError(url: string, answer: Answer, path = ''): CommandFailedError {
  const problem = readProblem(answer);
  if (answer.status >= 300 && answer.status < 400)
    return new CommandFailedError(
      `${url} redirects, and keys are not sent to another address. Give the final one with --url.`,
      'redirected',
    );
  if (!problem)
    return new CommandFailedError(
      `${url} answered ${answer.status}, but not as this service does. Does the address belong to another service or to a proxy?`,
      UNEXPECTED,
    );
  const errors = problem.errors ?? [];
  const fields = errors.map(({ pointer, detail }) => `\n  ${pointer.slice(1)} ${detail}`).join('');
  const id = problem.request_id === undefined ? '' : `\n  request id ${problem.request_id}`;
  // The details of these problems refer to members of the document, which are printed in their place.
  const detail = errors.length > 0 || problem.scopes ? '' : ` ${problem.detail}`;
  const said = `${problem.title} (${problem.code}, ${answer.status}).${detail}`;
  return new CommandFailedError(said + fields + adviseOn(answer, problem, path) + id, problem.code);
}

/** @returns undefined for a body that this service does not send */
export function readProblem({ body }: Answer): ProblemBody | undefined {
  return problemSchema.safeParse(body).data;
}

function adviseOn({ status, retryAfter }: Answer, { code, scopes = [] }: ProblemBody, path: string): string {
  if (code === 'invalid_admin_key')
    return `\n  The ADMIN_API_KEY ${describeSource('ADMIN_API_KEY')} is neither the key that the service runs with nor the key of a live operator.`;
  if (code === 'missing_scope') return `\n  The key is valid. Its operator needs the scope ${scopes.join(' or ')}.`;
  if (code === 'event_not_next')
    return '\n  `platform-auth events list` shows the oldest one. Run this again only if the service is to pass over that one.';
  if (code === 'credential_revoked') return '\n  Nothing was changed. Make a new one instead.';
  if (code === 'not_found') {
    const list = LISTS[/^\/([^/?]+)/.exec(path)?.[1] ?? ''];
    const known = list === undefined ? 'Is the address right?' : `\`platform-auth ${list}\` shows what there is.`;
    return `\n  ${known} With INTERNAL_PORT set, --url or AUTH_URL must name that port.`;
  }
  if (status === 503 || status === 429)
    return `\n  Try again in ${replaceControlCharacters(retryAfter ?? 'a few')} seconds.`;
  return '';
}

/** @param parts ids, which may hold any characters, and words */
export function joinPath(base: string, ...parts: readonly string[]): string {
  return [base, ...parts.map(encodeURIComponent)].join('/');
}

/** @throws {CommandFailedError} when a text is not a URL to which a path can be appended */
export function parseBaseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new CommandFailedError(
      '--url or AUTH_URL must be an http(s) URL without user, query or fragment, as in https://auth.home',
      'usage',
    );
  }
  return url.href.replace(/\/+$/, '');
}
