// Errors: the catalogue of every error response, and the exception that ends a request with one of them. Terms: a
// problem is an entry of the catalogue; an occurrence is one response with it (RFC 9457). Invariants: a problem's text is
// a constant, the same for every caller, so it never quotes input; the reason of a refusal is logged and never sent.
// problem.filter.ts turns every error into its response.

import type { RefusalEventName, RefusalReason } from '../common/security-events.js';
import type { LogFields } from '../logging/log-line.js';

/** One kind of error response. */
export interface Problem {
  readonly status: number;
  /** Stable snake_case word that callers may branch on. */
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** Seconds, sent as `Retry-After`. */
  readonly retryAfterSeconds?: number;
  /** Sent as `WWW-Authenticate` (RFC 9110 §11.6.1). */
  readonly challenge?: string;
  /** Members of the body in addition to the standard ones. */
  readonly extension?: Readonly<Record<string, unknown>>;
}

/** One rejected field: a JSON Pointer (RFC 6901) into the body or the query, and what would be accepted. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

export const REALM = 'realm="platform-auth"';
/** A member of the body of each refused validation. */
export const NOT_VALID = { valid: false } as const;

/** The catalogue: every error response of this service is one of these. */
export const problems = {
  validationFailed: {
    status: 400,
    code: 'validation_failed',
    title: 'The request is not valid',
    detail: 'One or more fields are missing, unknown or not acceptable; see errors.',
  },
  malformedRequest: {
    status: 400,
    code: 'malformed_request',
    title: 'The request cannot be read',
    detail: 'The request line, the headers or the JSON body are malformed, or the body is not a JSON object.',
  },
  bodyTooDeep: {
    status: 400,
    code: 'body_too_deep',
    title: 'The body is nested too deeply',
    detail: 'The JSON body is nested deeper than this service accepts.',
  },
  duplicateHeader: {
    status: 400,
    code: 'duplicate_header',
    title: 'A credential header arrived twice',
    detail: 'Send each credential header at most once.',
  },
  nothingToLogOut: {
    status: 400,
    code: 'nothing_to_log_out',
    title: 'Nothing to log out',
    detail: 'Send a refresh_token, an access token as bearer, or both.',
  },
  invalidLink: {
    status: 400,
    code: 'invalid_link',
    title: 'The link is not valid',
    detail: 'The token of the link is unknown, used, replaced by a newer one, or expired. Ask for a new link.',
  },
  invalidCredentials: {
    status: 401,
    code: 'invalid_credentials',
    title: 'The credentials are not valid',
    detail: 'The e-mail address and the password do not belong to an active account.',
    challenge: `Bearer ${REALM}`,
  },
  invalidSecondFactor: {
    status: 401,
    code: 'invalid_second_factor',
    title: 'The second factor is not valid',
    detail:
      'The code or the passkey is wrong or was used before, or the challenge is void: it lives 5 minutes, and a change ' +
      'of the password ends it.',
    challenge: `Bearer ${REALM}`,
  },
  invalidPasskey: {
    status: 401,
    code: 'invalid_passkey',
    title: 'The passkey is not valid',
    detail: 'The passkey does not belong to an active account, or the challenge has expired or was used before.',
    challenge: `Bearer ${REALM}`,
  },
  invalidRefreshToken: {
    status: 401,
    code: 'invalid_refresh_token',
    title: 'The refresh token is not valid',
    detail: 'The refresh token is unknown, expired, revoked or was used before. Log in again.',
    challenge: `Bearer ${REALM}`,
  },
  unauthenticated: {
    status: 401,
    code: 'unauthenticated',
    title: 'A credential is needed',
    detail: 'Send one of the credentials that this route accepts.',
    challenge: `Bearer ${REALM}`,
  },
  missingAccessToken: {
    status: 401,
    code: 'missing_access_token',
    title: 'An access token is needed',
    detail: 'Send an access token: Authorization: Bearer <access token>.',
    challenge: `Bearer ${REALM}`,
  },
  invalidAccessToken: {
    status: 401,
    code: 'invalid_access_token',
    title: 'The access token is not valid',
    detail: 'The access token is malformed, expired or its session has ended.',
    challenge: `Bearer ${REALM}, error="invalid_token", error_description="The access token is not valid"`,
  },
  invalidAppCredentials: {
    status: 401,
    code: 'invalid_app_credentials',
    title: 'The app credentials are not valid',
    detail: 'X-Platform-App-Id and X-Platform-App-Key are missing or do not name a live credential for this target.',
    challenge: `PlatformApp ${REALM}`,
    extension: NOT_VALID,
  },
  invalidNodeCredentials: {
    status: 401,
    code: 'invalid_node_credentials',
    title: 'The node credentials are not valid',
    detail: 'X-API-Key is missing or does not name a live node: X-API-Key: <node_id>:<api_key>.',
    challenge: `NodeKey ${REALM}`,
    extension: NOT_VALID,
  },
  invalidAdminKey: {
    status: 401,
    code: 'invalid_admin_key',
    title: 'The admin key is not valid',
    detail: 'X-Admin-Key is missing, or is neither the admin key of this service nor the key of a live operator.',
    challenge: `AdminKey ${REALM}`,
  },
  secondFactorRequired: {
    status: 403,
    code: 'second_factor_required',
    title: 'A second factor is required',
    detail: 'The password is right. Answer the challenge by one of the methods: POST /api/v0/auth/login/second-factor.',
  },
  wrongSecondFactor: {
    status: 403,
    code: 'wrong_second_factor',
    title: 'The code is wrong',
    detail:
      'The code is wrong or was used before, or the enrolment is missing or void: a change of the password ends one ' +
      'that was not confirmed. Nothing was changed, and the access token stays valid.',
  },
  totpEnrolled: {
    status: 409,
    code: 'totp_enrolled',
    title: 'The authenticator app is enrolled',
    detail: 'The account has a confirmed authenticator app (TOTP). Remove it first.',
  },
  totpSecretUnreadable: {
    status: 503,
    code: 'totp_secret_unreadable',
    title: 'Codes of the app cannot be checked',
    detail:
      'The secret of the authenticator app cannot be decrypted. This is not a verdict on the code: use a recovery code or ' +
      'a passkey. An operator must set SECRET_KEY_PREVIOUS to the former SECRET_KEY, or remove the second factors of the user.',
    retryAfterSeconds: 300,
  },
  passkeyExists: {
    status: 409,
    code: 'passkey_exists',
    title: 'The passkey is registered',
    detail: 'The passkey is registered already.',
  },
  tooManyPasskeys: {
    status: 409,
    code: 'too_many_passkeys',
    title: 'The account has too many passkeys',
    detail: 'An account has 20 passkeys at most. Remove one first.',
  },
  registrationClosed: {
    status: 403,
    code: 'registration_closed',
    title: 'Registration is closed',
    detail: 'This service does not accept registrations. Ask an administrator for an account.',
  },
  emailNotVerified: {
    status: 403,
    code: 'email_not_verified',
    title: 'The e-mail address is not verified',
    detail: 'Verify your e-mail address, then log in: open the link that was sent to it, or ask for a new one.',
  },
  missingScope: {
    status: 403,
    code: 'missing_scope',
    title: 'The operator lacks a scope',
    detail: 'The key is valid. Its operator needs one of the scopes that `scopes` lists.',
    extension: { scopes: ['nodes', 'read'] },
  },
  exceedsOwnRights: {
    status: 403,
    code: 'exceeds_own_rights',
    title: 'The operator would have more rights than the caller',
    detail: 'An operator manages only operators with no scope that it lacks, and with no later expiry than its own.',
  },
  wrongPassword: {
    status: 403,
    code: 'wrong_password',
    title: 'The password is wrong',
    detail: 'The current password is not right. Nothing was changed, and the access token stays valid.',
  },
  notFound: {
    status: 404,
    code: 'not_found',
    title: 'Not found',
    detail: 'The resource does not exist, or the caller may not see it.',
  },
  methodNotAllowed: {
    status: 405,
    code: 'method_not_allowed',
    title: 'The method is not allowed here',
    detail: 'The path exists, and takes the methods that the Allow header lists.',
  },
  emailTaken: {
    status: 409,
    code: 'email_taken',
    title: 'The e-mail address is taken',
    detail: 'There is already an account with this e-mail address.',
  },
  appCredentialExists: {
    status: 409,
    code: 'app_credential_exists',
    title: 'The pair has a live credential',
    detail: 'There is already a live credential for this caller and target. Rotate or revoke it.',
  },
  operatorExists: {
    status: 409,
    code: 'operator_exists',
    title: 'The name is taken',
    detail: 'There is already an operator with this name, in any letter case. Rotate or revoke it.',
  },
  credentialRevoked: {
    status: 409,
    code: 'credential_revoked',
    title: 'The credential is revoked',
    detail: 'A revoked credential cannot be changed. Issue a new one.',
  },
  credentialExpired: {
    status: 409,
    code: 'credential_expired',
    title: 'The credential has expired',
    detail: 'A new key for it would be refused. Extend it first, or issue a new one.',
  },
  userDisabled: {
    status: 409,
    code: 'user_disabled',
    title: 'The user is disabled',
    detail: 'The password of a disabled user cannot be reset. Enable the user first.',
  },
  payloadTooLarge: {
    status: 413,
    code: 'payload_too_large',
    title: 'The body is too large',
    detail: 'The body is larger than 100 KB.',
  },
  unsupportedMediaType: {
    status: 415,
    code: 'unsupported_media_type',
    title: 'The body is not JSON',
    detail: 'Send the body as application/json in UTF-8; the only form is that of /internal/introspect.',
  },
  idempotencyKeyReused: {
    status: 422,
    code: 'idempotency_key_reused',
    title: 'The Idempotency-Key belongs to another request',
    detail:
      'This Idempotency-Key was sent with another body within the last 24 hours. Use a new key for a new request.',
  },
  tooManyRequests: {
    status: 429,
    code: 'too_many_requests',
    title: 'Too many tries',
    detail: 'Wait for as long as Retry-After says. This is not a verdict on the credential, which was not checked.',
  },
  headersTooLarge: {
    status: 431,
    code: 'headers_too_large',
    title: 'The headers are too large',
    detail: 'The request line and the headers together are larger than 16 KB.',
  },
  internalError: {
    status: 500,
    code: 'internal_error',
    title: 'Internal error',
    detail: 'The service failed to answer. The request id finds the cause in its logs.',
  },
  unavailable: {
    status: 503,
    code: 'unavailable',
    title: 'The service is unavailable',
    detail:
      'The database cannot be used at the moment. This is not a verdict on the credential: keep it and try again.',
    retryAfterSeconds: 2,
  },
  gatewayMisconfigured: {
    status: 503,
    code: 'gateway_misconfigured',
    title: 'The gateway is not configured',
    detail:
      'The gateway must name the service that it protects in X-Platform-Target. This is not a verdict on the key.',
    retryAfterSeconds: 2,
  },
  hashingBusy: {
    status: 503,
    code: 'hashing_busy',
    title: 'Too many passwords are being verified',
    detail: 'The queue of passwords to verify is full. This is not a verdict on the password: try again shortly.',
    retryAfterSeconds: 2,
  },
} as const satisfies Record<string, Problem>;

/** The answer of the route that takes a form. Its type and code are those of every 415. */
export const formExpected: Problem = {
  ...problems.unsupportedMediaType,
  title: 'The body is not a form',
  detail: 'Send the body as application/x-www-form-urlencoded in UTF-8: token=<access token>.',
};

interface RefusalOf<Event extends RefusalEventName> {
  readonly event: Event;
  readonly reason: RefusalReason<Event>;
  readonly fields?: Readonly<Record<string, string | undefined>>;
  /** Number of refusals that this event stands for, when not every one is logged. */
  readonly count?: number;
}

/** Why a request was refused: logged as a security event (ASVS 16.3), never sent to the caller. */
export type RefusalEvent = { [Event in RefusalEventName]: RefusalOf<Event> }[RefusalEventName];

/** What an occurrence of a problem adds to the entry of the catalogue. */
export interface Occurrence {
  readonly errors?: readonly FieldError[];
  readonly refusal?: RefusalEvent;
  /** False for most refusals of a flood, and for a mistake that is logged once. The metrics count every one. */
  readonly isLogged?: boolean;
  /** Further headers of the response. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Further members of the body, of this occurrence (RFC 9457 §3.2). */
  readonly members?: object;
  /** A 503 that lasts until an operator acts is logged as an error, with these fields. */
  readonly fault?: LogFields;
  readonly cause?: unknown;
}

/**
 * Ends a request with a problem of the catalogue. The name follows Nest's exceptions. Only a 5xx has a stack trace, which
 * is logged: for a refusal it would cost more than the check of the credential.
 */
export class ProblemException extends Error {
  constructor(
    readonly problem: Problem,
    readonly occurrence: Occurrence = {},
  ) {
    const { stackTraceLimit } = Error;
    if (problem.status < 500) Error.stackTraceLimit = 0;
    super(problem.code, { cause: occurrence.cause });
    Error.stackTraceLimit = stackTraceLimit;
  }

  /** @returns the same with further headers of the response */
  withHeaders(headers: Readonly<Record<string, string>>): ProblemException {
    const { problem, occurrence } = this;
    return new ProblemException(problem, { ...occurrence, headers: { ...occurrence.headers, ...headers } });
  }
}

/** Rejected fields that a response names at most. */
export const MAX_ERRORS = 20;

/**
 * Creates the body of a problem response (RFC 9457 §3). `instance` names the occurrence and not the path, which may
 * contain anything.
 */
export function toProblemBody(problem: Problem, requestId: string, errors: readonly FieldError[] = []) {
  return {
    type: toProblemType(problem),
    title: problem.title,
    status: problem.status,
    detail: problem.detail,
    instance: `urn:request:${requestId}`,
    code: problem.code,
    request_id: requestId,
    ...problem.extension,
    ...(problem.status === 400 && { errors: errors.slice(0, MAX_ERRORS) }),
  };
}

/** @returns the URI reference of a problem type, as docs/api.md lists it */
export function toProblemType(problem: Problem): string {
  return `/problems/${problem.code.replaceAll('_', '-')}`;
}
