import { CommandFailedError, say } from './terminal.js';

const TIMEOUT_MS = 15_000;
const PROGRESS_DELAY_MS = 1_000;
const DISTRUST = /CERT|SIGNED|SSL|TLS/;
const NEVER_SENT = new RegExp(`^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN)$|${DISTRUST.source}`);

/** What may stand in a header; fetch would quote anything else in its error. */
export const HEADER_VALUE = /^[\x21-\x7e]+$/;

/** A problem document, as every refusal of the service is one. */
interface ProblemBody {
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly request_id?: string;
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[];
}

export interface Answer {
  readonly status: number;
  readonly retryAfter: string | null;
  readonly body: unknown;
}

/** The service said no, in its own words; with its stable code to branch on. */
export class RefusedError extends CommandFailedError {
  constructor(
    message: string,
    readonly code: string,
  ) {
    super(message);
  }
}

/** What was asked for may have been done, and nobody will say. */
export class NoAnswerError extends CommandFailedError {}

/**
 * Says what to do when a call may have been done and was not answered.
 * @param advice what is right in both cases
 */
export async function withAdvice<Result>(call: Promise<Result>, advice: string): Promise<Result> {
  try {
    return await call;
  } catch (error) {
    throw error instanceof NoAnswerError ? new CommandFailedError(`${error.message}\n  ${advice}`) : error;
  }
}

/**
 * One HTTP call that ends in time.
 * @returns whatever was answered, also when it is a refusal
 * @throws {CommandFailedError} when nothing was; {@link NoAnswerError} when it may have changed something all the same
 */
export async function callService(
  url: string,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body?: object,
): Promise<Answer> {
  const patience = setTimeout(() => say(`Waiting for ${url} …`), PROGRESS_DELAY_MS);
  try {
    const response = await fetch(url + path, {
      method,
      headers: { Accept: 'application/json', ...headers, ...(body && { 'Content-Type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
      // A key goes to the address that it was meant for and nowhere else.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '');
    const text = await response.text();
    const retryAfter = response.headers.get('retry-after');
    return { status: response.status, retryAfter, body: isJson ? JSON.parse(text) : undefined };
  } catch (error) {
    const why = describeFailure(url, error);
    if (method === 'GET' || NEVER_SENT.test(readErrorCode(error))) throw new CommandFailedError(why);
    throw new NoAnswerError(`${why} Whether it was done is not known.`);
  } finally {
    clearTimeout(patience);
  }
}

function readErrorCode(error: unknown): string {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '';
}

function describeFailure(url: string, error: unknown): string {
  const { name } = error as Error;
  const code = readErrorCode(error);
  if (name === 'TimeoutError') return `${url} did not answer within ${TIMEOUT_MS / 1_000} seconds.`;
  if (name === 'SyntaxError') return `${url} answered with something that is no JSON.`;
  if (code === 'ECONNREFUSED')
    return `Nobody listens at ${url} (connection refused). Is the service up, and is --url or AUTH_URL right?`;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `The host of ${url} has no address. Is it spelt right?`;
  if (DISTRUST.test(code)) return `The certificate of ${url} is not trusted (${code}).`;
  return `The connection to ${url} failed${code && ` (${code})`}.`;
}

/** What an answer that is no success means, and what to do about it. */
export function toRefusal(url: string, answer: Answer): CommandFailedError {
  const problem = readProblem(answer);
  if (answer.status >= 300 && answer.status < 400)
    return new CommandFailedError(`${url} redirects, and a key must not follow. Give the final address with --url.`);
  if (!problem) {
    return new CommandFailedError(
      `${url} answered ${answer.status}, but not as this service does. Is something else there, or a proxy before it?`,
    );
  }
  const fields = (problem.errors ?? []).map(({ pointer, detail }) => `\n  ${pointer.slice(1)} ${detail}`).join('');
  const id = problem.request_id === undefined ? '' : `\n  request id ${problem.request_id}`;
  const said = `${problem.title} (${problem.code}, ${answer.status}). ${problem.detail}`;
  return new RefusedError(said + fields + adviseOn(answer, problem.code) + id, problem.code);
}

export function readProblem({ body }: Answer): ProblemBody | undefined {
  const isProblem = typeof body === 'object' && body !== null && 'code' in body && 'title' in body;
  return isProblem ? (body as ProblemBody) : undefined;
}

function adviseOn({ status, retryAfter }: Answer, code: string): string {
  if (code === 'invalid_admin_key')
    return '\n  ADMIN_API_KEY is not the key that the service runs with, or the service runs without one.';
  if (code === 'credential_revoked') return '\n  Nothing was changed. Make a new one instead.';
  if (code === 'not_found')
    return '\n  Is the id right? `list` shows every id. With INTERNAL_PORT set, --url or AUTH_URL must name that port.';
  if (status === 503 || status === 429) return `\n  Try again in ${retryAfter ?? 'a few'} seconds.`;
  return '';
}

/** @throws {CommandFailedError} when a text is no URL that a path can follow */
export function parseBaseUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new CommandFailedError(
      '--url or AUTH_URL must be an http(s) URL without user, query or fragment, as in https://auth.home',
    );
  }
  return url.href.replace(/\/+$/, '');
}
