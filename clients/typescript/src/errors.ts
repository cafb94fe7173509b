import { randomUUID } from 'node:crypto';
import type { HouseholdRole } from './principals.js';
import {
  createMissingRole,
  createMissingScope,
  DELEGATION_NOT_ACCEPTED,
  DELEGATION_REQUIRED,
  NOT_A_MEMBER,
  UNAVAILABLE,
  type Problem,
} from './refusals.js';

/** The response to a request that was not accepted (RFC 9457). */
export interface ProblemResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A request was not accepted. Contains nothing of the credential. */
export abstract class VerificationError extends Error {
  readonly status: number;
  /** As errors of `http-errors`, so that frameworks answer with the status when a route throws it, as `tokenFor` may. */
  readonly statusCode: number;
  readonly expose = true;
  /** A stable word to branch on. */
  readonly code: string;
  /** The `X-Request-Id` of the refused request, when it has one that may be shown. */
  requestId: string | undefined;
  readonly #problem: Problem;

  /** @internal */
  constructor(problem: Problem, options?: ErrorOptions) {
    super(problem.title, options);
    this.#problem = problem;
    this.status = problem.status;
    this.statusCode = problem.status;
    this.code = problem.code;
  }

  /** The problem document, and the headers, with which the authentication service would answer. */
  toResponse(requestId: string = this.requestId ?? randomUUID()): ProblemResponse {
    const { status, code, title, detail, headers, extension } = this.#problem;
    return {
      status,
      headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
      body: {
        type: `/problems/${code.replaceAll('_', '-')}`,
        title,
        status,
        detail,
        instance: `urn:request:${requestId}`,
        code,
        request_id: requestId,
        ...extension,
      },
    };
  }
}

/** A verdict: the credential is missing, malformed or not valid. Status 401, or 400 when a header arrived twice. */
export class RefusedError extends VerificationError {
  override readonly name: string = 'RefusedError';
}

/** A verdict: the key of a service, or the token that it got on behalf of a user, is valid but lacks a scope. Status 403. */
export class MissingScopeError extends RefusedError {
  override readonly name = 'MissingScopeError';

  /** @internal */
  constructor(readonly scope: string) {
    super(createMissingScope(scope));
  }
}

/** A verdict: the token is a service's, on behalf of a user, and the route accepts users themselves alone. Status 403. */
export class DelegationNotAcceptedError extends RefusedError {
  override readonly name = 'DelegationNotAcceptedError';

  /** @internal */
  constructor() {
    super(DELEGATION_NOT_ACCEPTED);
  }
}

/** A verdict: the token is a user's own, and the route accepts services on behalf of users alone. Status 403. */
export class DelegationRequiredError extends RefusedError {
  override readonly name = 'DelegationRequiredError';

  /** @internal */
  constructor() {
    super(DELEGATION_REQUIRED);
  }
}

/** A verdict: the user does not live in the household, or the household does not exist. Status 404. */
export class NotAMemberError extends RefusedError {
  override readonly name = 'NotAMemberError';

  /** @internal */
  constructor() {
    super(NOT_A_MEMBER);
  }
}

/** A verdict: the user lives in the household without the role. Status 403. */
export class MissingRoleError extends RefusedError {
  override readonly name = 'MissingRoleError';

  /** @internal */
  constructor(readonly role: HouseholdRole) {
    super(createMissingRole(role));
  }
}

/** Not a verdict: the authentication service could not be asked, or the headers could not be read (`cause`). Status 503. */
export class UnavailableError extends VerificationError {
  override readonly name = 'UnavailableError';

  constructor(options?: ErrorOptions) {
    super(UNAVAILABLE, options);
  }
}

/** The configuration cannot be used. The message names variables, never their values. */
export class VerifierConfigurationError extends Error {
  override readonly name = 'VerifierConfigurationError';
}

/** An unexpected error becomes a 503 and never a 500, because the credential could not be verified. */
export function toVerificationError(error: unknown): VerificationError {
  return error instanceof VerificationError ? error : new UnavailableError({ cause: error });
}
