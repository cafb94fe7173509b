import type { IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';
import { leakOfAnswer } from './canaries.js';
import type { ApiDocument, Operation } from './document.js';
import type { Answer, Failure, Wire } from './send.js';
import type { GeneratedRequest, SentRequest } from './wire.js';

const PROBLEM = 'application/problem+json';
/** The statuses of requests that are refused before they reach an operation. */
const BEFORE_ROUTING = new Set([400, 404, 413, 415, 417, 431]);
const PROTOTYPE_NAMES = /^(__proto__|constructor|prototype)$/;

/** A problem names at most 20 fields. */
const MAX_PROBLEM_LENGTH = 20 * 1024;
const problem = z.object({ status: z.unknown() });

/** What the judge knows of a generated request. */
export type Intent = { readonly credentials: Pick<GeneratedRequest['credentials'], 'verdict'> };

/** Numbers of responses by status. */
type StatusCounts = Record<string, number>;

/**
 * These operations need a code of an app, an authenticator, a token of a mail, an invitation of another user, another
 * session of the caller, or a setting, such as ACCESS_TOKEN_ALGORITHM=ES256.
 */
const NEEDS_MORE =
  /(login\/second-factor|login\/enrolment\/totp|invitations\/accept|households\/\{id\}\/enrolments|login\/passkey|\/confirm|totp\/remove|recovery-codes|me\/passkeys|passkeys\/\{(passkey_)?id\}(\/remove)?|sessions\/\{id\}|internal\/token)$/;

/** Decides whether the document and the contract allow a response. */
export class Judge {
  /** Counts by operation. */
  readonly counts = new Map<string, StatusCounts>();
  busy = 0;

  constructor(private readonly document: ApiDocument) {}

  /** @returns what is wrong; undefined when nothing is */
  verdict(
    intent: Intent,
    { wire, text }: Pick<SentRequest, 'wire' | 'text'>,
    answer: Answer | Failure,
  ): string | undefined {
    if ('failure' in answer) return answer.failure;
    const operation = this.document.operationAt(wire.method, wire.target);
    this.count(operation, wire, answer.status);
    const { status, headers, body } = answer;
    const wrong = leakOfAnswer(status, JSON.stringify(headers) + body) ?? this.failureOf(operation, answer);
    if (wrong !== undefined) return wrong;
    if (status >= 400) return this.differenceOfProblem(operation, wire, answer);
    return this.differenceOfSuccess(operation, wire, answer) ?? this.wronglyAccepted(operation, intent, text, wire);
  }

  /** @returns the ids of the operations that never succeeded, except those that cannot */
  get unreached(): readonly string[] {
    const hasSucceeded = (id: string): boolean =>
      Object.keys(this.counts.get(id) ?? {}).some((status) => Number(status) < 300);
    return this.document.operations.map(({ id }) => id).filter((id) => !hasSucceeded(id) && !NEEDS_MORE.test(id));
  }

  private count(operation: Operation | undefined, { method }: Wire, status: number): void {
    const id = operation && method !== 'HEAD' ? operation.id : 'elsewhere';
    const counts = this.counts.get(id) ?? {};
    counts[status] = (counts[status] ?? 0) + 1;
    this.counts.set(id, counts);
  }

  /** Two 503s are allowed: that of a full hashing queue, and that of a gateway that names no target. */
  private failureOf(operation: Operation | undefined, { status, headers, body }: Answer): string | undefined {
    if (status < 500) return undefined;
    if (status === 503 && operation?.hashes && body.includes('"hashing_busy"') && headers['retry-after']) {
      this.busy += 1;
      return undefined;
    }
    if (status === 503 && operation?.isGateway && body.includes('"gateway_misconfigured"')) return undefined;
    return `the service failed: ${status} ${body.slice(0, 300)}`;
  }

  private differenceOfSuccess(
    operation: Operation | undefined,
    { method, target }: Wire,
    { status, headers, body }: Answer,
  ): string | undefined {
    if (method === 'OPTIONS' && status === 204 && headers.allow !== undefined)
      return body ? 'an answer to OPTIONS has a body' : undefined;
    if (!operation)
      return isDocumentation(target, status) ? undefined : `${status} where the document has no operation`;
    const documented = operation.responses[status];
    if (!documented) return `${operation.id} → ${status} is not documented`;
    if (method === 'HEAD') return body ? 'an answer to HEAD has a body' : undefined;
    const type = typeOf(headers);
    if (body === '') return documented.content ? `${operation.id} → ${status} has no body` : undefined;
    const schema = documented.content?.[type]?.schema;
    if (!schema) return `${operation.id} → ${status} has an undocumented body of type ${type}`;
    const difference = this.document.difference(schema, JSON.parse(body));
    return difference && `${operation.id} → ${status} differs from its schema: ${difference}`;
  }

  private differenceOfProblem(
    operation: Operation | undefined,
    { method }: Wire,
    { status, headers, body }: Answer,
  ): string | undefined {
    const type = typeOf(headers);
    const documented = operation?.responses[status];
    const otherForm = documented?.content?.[type]?.schema;
    if (type !== PROBLEM && !otherForm) return `${status} is ${type} and not ${PROBLEM}`;
    if (operation && !operation.responses[status] && !BEFORE_ROUTING.has(status))
      return `${operation.id} → ${status} is not documented`;
    if (status === 401 && !headers['www-authenticate']) return '401 without WWW-Authenticate';
    if (status === 429 && !headers['retry-after']) return '429 without Retry-After';
    if (method === 'HEAD') return body ? 'an answer to HEAD has a body' : undefined;
    if (body.length > MAX_PROBLEM_LENGTH) return `${status} has a body of ${body.length} characters`;
    const said: unknown = JSON.parse(body);
    if (type !== PROBLEM && otherForm) {
      const difference = this.document.difference(otherForm, said);
      return difference && `${status} is not the documented error: ${difference}`;
    }
    const { status: saidStatus } = problem.parse(said);
    if (saidStatus !== status) return `the problem says ${String(saidStatus)} and the answer ${status}`;
    const difference = this.document.difference(this.document.problemSchema, said);
    return difference && `${status} is not the documented problem: ${difference}`;
  }

  /** @returns why the document forbids a request that was accepted */
  private wronglyAccepted(
    operation: Operation | undefined,
    { credentials: { verdict } }: Intent,
    text: string | undefined,
    { method, target, body }: Wire,
  ): string | undefined {
    const wronglyTrusted = operation && credentialsRefusal(operation, verdict);
    // A gateway passes on the query and the body of its own client, which the service does not read.
    if (wronglyTrusted !== undefined || operation?.isGateway) return wronglyTrusted;
    // The answer to OPTIONS names the methods of a path, and nothing else of the request is read.
    if (method === 'OPTIONS') return undefined;
    const [, search = ''] = /\?([^]*)$/.exec(target) ?? [];
    const parameters = [...new URLSearchParams(search).entries()];
    if (parameters.some(([name]) => PROTOTYPE_NAMES.test(name))) return 'accepted a parameter that reaches a prototype';
    if (!operation) return undefined;
    if (text !== undefined || body === undefined) {
      const reason = this.bodyRefusal(operation, text);
      if (reason !== undefined) return `accepted a body although ${reason}`;
    }
    const takesNoQuery = operation.template.startsWith('/internal/');
    const reason = operation.query.length > 0 || takesNoQuery ? this.queryRefusal(operation, parameters) : undefined;
    return reason && `accepted a query although ${reason}`;
  }

  private bodyRefusal(operation: Operation, text: string | undefined): string | undefined {
    const { acceptedBody: body, bodyRequired, isForm } = operation;
    if (text === undefined || text === '') return bodyRequired ? 'there is none' : undefined;
    if (isForm) return body && this.document.difference(body, Object.fromEntries(new URLSearchParams(text)));
    let value: unknown;
    try {
      value = JSON.parse(text.replace(/^\ufeff/, '')); // A byte order mark may be ignored (RFC 8259 §8.1).
    } catch {
      return 'it is not JSON';
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'it is not an object';
    if (!isSane(value)) return 'it reaches a prototype or is not valid Unicode';
    return body && this.document.difference(body, value);
  }

  private queryRefusal({ query }: Operation, parameters: readonly [string, string][]): string | undefined {
    for (const [name, value] of parameters) {
      const known = query.find((parameter) => parameter.name === name);
      if (!known) return 'a parameter is unknown';
      const difference = this.document.difference(known.schema, value, true);
      if (difference !== undefined) return `${name} ${difference}`;
    }
    return undefined;
  }
}

/** @returns why credentials must not be accepted */
function credentialsRefusal({ security }: Operation, verdict: Intent['credentials']['verdict']): string | undefined {
  const isSecured = security.length > 0 && !security.some((schemes) => Object.keys(schemes).length === 0);
  return isSecured && (verdict === 'none' || verdict === 'bad') ? `accepted ${verdict} credentials` : undefined;
}

function typeOf(headers: IncomingHttpHeaders): string {
  const [type = ''] = (headers['content-type'] ?? 'none').split(';');
  return type;
}

/** The pages of the documentation are not operations of the document. */
function isDocumentation(target: string, status: number): boolean {
  return /^\/(docs|$|\?)/.test(target) && [200, 206, 301, 302, 304].includes(status);
}

function isSane(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, child]) => !PROTOTYPE_NAMES.test(name) && isSane(child));
}
