import { leakOfAnswer } from './canaries.js';

const PROBLEM = 'application/problem+json';
/** Statuses of requests that are refused before they reach an operation. */
const BEFORE_ROUTING = new Set([400, 404, 413, 415, 417, 431]);
const PROTOTYPE_NAMES = /^(__proto__|constructor|prototype)$/;

/** A problem names at most 20 fields. */
const MAX_PROBLEM_LENGTH = 20 * 1024;

/** Decides whether the document and the contract allow a response. */
export class Judge {
  /** Responses by operation and status. */
  counts = new Map();
  busy = 0;

  constructor(document) {
    this.document = document;
  }

  /** @returns what is wrong, or undefined */
  verdict(generated, { wire, text }, answer) {
    if (answer.failure) return answer.failure;
    const operation = this.document.operationAt(wire.method, wire.target);
    this.#count(operation, wire, answer.status);
    const { status, headers, body } = answer;
    const head = JSON.stringify(headers);
    return (
      leakOfAnswer(status, head + body) ??
      this.#failureOf(operation, answer) ??
      (status < 400
        ? (this.#differenceOfSuccess(operation, wire, answer) ??
          this.#wronglyAccepted(operation, generated, text, wire))
        : this.#differenceOfProblem(operation, wire, answer))
    );
  }

  /** @returns which operations never succeeded: if all requests fail early, an operation is not tested */
  unreached() {
    const succeeded = (id) => Object.keys(this.counts.get(id) ?? {}).some((status) => status < 300);
    const without = this.document.operations.filter(({ id }) => !succeeded(id)).map(({ id }) => id);
    return without.length > 0 ? `never succeeded: ${without.join(', ')}` : undefined;
  }

  #count(operation, { method }, status) {
    const id = operation && method !== 'HEAD' ? operation.id : 'elsewhere';
    const ofOne = this.counts.get(id) ?? {};
    ofOne[status] = (ofOne[status] ?? 0) + 1;
    this.counts.set(id, ofOne);
  }

  /** The only allowed 5xx is the 503 of a full hashing queue. */
  #failureOf(operation, { status, headers, body }) {
    if (status < 500) return undefined;
    if (status === 503 && operation?.hashes && body.includes('"hashing_busy"') && headers['retry-after']) {
      this.busy += 1;
      return undefined;
    }
    return `the service failed: ${status} ${body.slice(0, 300)}`;
  }

  #differenceOfSuccess(operation, { method, target }, { status, headers, body }) {
    if (method === 'OPTIONS' && status === 204 && headers.allow)
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

  #differenceOfProblem(operation, { method }, { status, headers, body }) {
    if (typeOf(headers) !== PROBLEM) return `${status} is ${typeOf(headers)} and not ${PROBLEM}`;
    if (operation && !operation.responses[status] && !BEFORE_ROUTING.has(status))
      return `${operation.id} → ${status} is not documented`;
    if (status === 401 && !headers['www-authenticate']) return '401 without WWW-Authenticate';
    if (status === 429 && !headers['retry-after']) return '429 without Retry-After';
    if (method === 'HEAD') return body ? 'an answer to HEAD has a body' : undefined;
    if (body.length > MAX_PROBLEM_LENGTH) return `${status} has a body of ${body.length} characters`;
    const problem = JSON.parse(body);
    if (problem.status !== status) return `the problem says ${problem.status} and the answer ${status}`;
    const difference = this.document.difference(this.document.problemSchema, problem);
    return difference && `${status} is not the documented problem: ${difference}`;
  }

  /** @returns why the document forbids a request that was accepted */
  #wronglyAccepted(operation, { credentials }, text, { target, body }) {
    const [, search = ''] = /\?([^]*)$/.exec(target) ?? [];
    const parameters = [...new URLSearchParams(search).entries()];
    if (parameters.some(([name]) => PROTOTYPE_NAMES.test(name))) return 'accepted a parameter that reaches a prototype';
    if (!operation) return undefined;
    const isSecured = operation.security.length > 0 && !operation.security.some((one) => Object.keys(one).length === 0);
    if (isSecured && /none|bad/.test(credentials.verdict)) return `accepted ${credentials.verdict} credentials`;
    if (text !== undefined || body === undefined) {
      const reason = this.#bodyRefusal(operation, text);
      if (reason) return `accepted a body although ${reason}`;
    }
    const takesNoQuery = operation.template.startsWith('/internal/');
    const reason = operation.query.length > 0 || takesNoQuery ? this.#queryRefusal(operation, parameters) : undefined;
    return reason && `accepted a query although ${reason}`;
  }

  #bodyRefusal(operation, text) {
    if (text === undefined || text === '') return operation.bodyRequired ? 'there is none' : undefined;
    let value;
    try {
      value = JSON.parse(text.replace(/^\ufeff/, '')); // A byte order mark may be ignored (RFC 8259 §8.1).
    } catch {
      return 'it is not JSON';
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'it is not an object';
    if (!isSane(value)) return 'it reaches a prototype or is not valid Unicode';
    if (!operation.body && operation.template.startsWith('/internal/') && Object.keys(value).length > 0)
      return 'it takes no fields';
    return operation.body && this.document.difference(operation.body, value);
  }

  #queryRefusal({ query }, parameters) {
    for (const [name, value] of parameters) {
      const known = query.find((parameter) => parameter.name === name);
      if (!known) return 'a parameter is unknown';
      const difference = this.document.difference(known.schema, value, true);
      if (difference) return `${name} ${difference}`;
    }
    return undefined;
  }
}

const typeOf = (headers) => String(headers['content-type'] ?? 'none').split(';')[0];

/** The documentation's pages are not operations of the document. */
function isDocumentation(target, status) {
  return /^\/(docs|$|\?)/.test(target) && [200, 206, 301, 302, 304].includes(status);
}

function isSane(value) {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  return Object.entries(value).every(([name, child]) => !PROTOTYPE_NAMES.test(name) && isSane(child));
}
