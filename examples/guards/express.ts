// A guard for services built with Express: asks platform-auth about each request. docs/integrate.md explains the rules.
import { setTimeout as sleep } from 'node:timers/promises';
import type { RequestHandler } from 'express';

/** What each door forwards, and the codes of a 401 that are verdicts on it. Others are about this service's own request. */
const DOORS = {
  user: { forwards: ['authorization'], verdicts: ['missing_access_token', 'invalid_access_token'] },
  app: { forwards: ['x-platform-app-id', 'x-platform-app-key'], verdicts: ['invalid_app_credentials'] },
  node: { forwards: ['x-api-key'], verdicts: ['invalid_node_credentials'] },
};
const TRACING = ['x-request-id', 'traceparent'];
const TIMEOUT_MS = 1_000;
const UNAVAILABLE = {
  type: '/problems/unavailable',
  title: 'The credential could not be checked',
  status: 503,
  code: 'unavailable',
};
const MISSING_SCOPE = {
  type: '/problems/missing-scope',
  title: 'A scope is missing',
  status: 403,
  code: 'missing_scope',
};

export interface GuardOptions {
  /** Address of platform-auth: that of its INTERNAL_PORT, where it has one. */
  readonly authUrl: string;
  /** The name of this service: the target that its callers' keys must have, and nodes with targets. */
  readonly serviceName: string;
  /** At the door `app`: what a restricted key has to be allowed. Without it, every restricted key is refused. */
  readonly scope?: string | undefined;
}

/** Admits requests with a valid credential for the door; `response.locals.caller` is what platform-auth said about it. */
export function createGuard(door: keyof typeof DOORS, { authUrl, serviceName, scope }: GuardOptions): RequestHandler {
  if (!serviceName) throw new Error('serviceName is missing: see SERVICE_NAME in the file of the service.');
  const { forwards, verdicts } = DOORS[door];
  return async ({ headersDistinct }, response, next) => {
    const headers = new Headers(door === 'user' ? {} : { 'X-Platform-Target': serviceName });
    if (scope !== undefined) headers.set('X-Platform-Scope', scope);
    for (const name of [...forwards, ...TRACING])
      headersDistinct[name]?.forEach((value) => headers.append(name, value));
    const answer = await ask(`${authUrl}/internal/validate-${door}`, headers);
    const text = (await answer?.text().catch(() => undefined)) ?? '';
    const parsed: unknown = await new Response(text).json().catch(() => undefined);
    const body = parsed as { valid?: unknown; scopes?: unknown; code?: unknown } | null | undefined;
    const { status = 503 } = answer ?? {};
    const code = typeof body?.code === 'string' ? body.code : '';
    if (status === 200 && body?.valid === true && isAllowed(body.scopes, scope)) {
      response.locals.caller = body;
      next();
    } else if (status === 200 && body?.valid === true) {
      response.status(403).type('application/problem+json').send(JSON.stringify(MISSING_SCOPE));
    } else if (
      (status === 401 && verdicts.includes(code)) ||
      (status === 403 && code === 'missing_scope') ||
      (code !== 'validation_failed' && code !== '' && [400, 431].includes(status))
    ) {
      response
        .status(status)
        .set('WWW-Authenticate', answer?.headers.get('www-authenticate') ?? [])
        .type('application/problem+json')
        .send(text);
    } else {
      response.status(503).set('Retry-After', '2').type('application/problem+json').send(JSON.stringify(UNAVAILABLE));
    }
  };
}

/** An answer without scopes is about a key that is not restricted. */
function isAllowed(scopes: unknown, scope: string | undefined): boolean {
  return scopes === undefined || (Array.isArray(scopes) && scopes.includes(scope));
}

/** Repeats once: after a connection that was refused or broke, or a 503. Never after a time-out, which means overload. */
async function ask(url: string, headers: Headers, isRetry = false): Promise<Response | undefined> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch(url, { method: 'POST', headers, signal, redirect: 'manual' }).catch(
    (error: unknown) => error,
  );
  const isAnswer = answer instanceof Response;
  if (isRetry || (isAnswer ? answer.status !== 503 : signal.aborted)) return isAnswer ? answer : undefined;
  if (isAnswer) await answer.body?.cancel();
  await sleep(50 + 100 * Math.random());
  return ask(url, headers, true);
}
