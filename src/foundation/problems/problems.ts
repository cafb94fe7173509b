// Errors: the catalogue of every error response, and the exception that ends a request with one of them. Terms: a
// problem is an entry of the catalogue; an occurrence is one response with it (RFC 9457). Invariants: a problem's text
// is a constant, the same for every caller, so it never quotes input; the reason of a refusal is logged and never sent.
// problem.filter.ts turns every error into its response.

import type { RefusalEventName, RefusalReason } from '../common/security-events.js';
import type { LogFields } from '../logging/log.js';

export interface Problem {
  readonly status: number;
  /** A stable snake_case word by which callers may decide. */
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly retryAfterSeconds?: number;
  /** The value of `WWW-Authenticate` (RFC 9110 §11.6.1). */
  readonly challenge?: string;
  /** Additional members of the body. */
  readonly extension?: Readonly<Record<string, unknown>>;
}

/** One rejected field: a JSON Pointer (RFC 6901) into the body or the query, and what would be accepted. */
export interface FieldError {
  readonly pointer: string;
  readonly detail: string;
}

export const REALM = 'realm="platform-auth"';
export const NOT_VALID = { valid: false } as const;

type Extras = Pick<Problem, 'retryAfterSeconds' | 'challenge' | 'extension'>;

const EXTRAS_OF_STATUS: Readonly<Record<number, Extras>> = {
  401: { challenge: `Bearer ${REALM}` },
  503: { retryAfterSeconds: 2 },
};

/** @param texts `code: title. detail` for each name of a problem */
function define<Name extends string>(
  status: number,
  texts: Record<Name, string>,
  extras: Partial<Record<NoInfer<Name>, Extras>> = {},
): Readonly<Record<Name, Problem>> {
  const entries = (Object.keys(texts) as Name[]).map((name) => {
    const [, code, title, detail] = /^([a-z_]+): (.+?)\. (.+)$/.exec(texts[name]) ?? [];
    if (!code || !title || !detail) throw new Error(`${name} is not of the form "code: title. detail"`);
    return [name, { status, code, title, detail, ...EXTRAS_OF_STATUS[status], ...extras[name] }];
  });
  return Object.fromEntries(entries) as Record<Name, Problem>;
}

/** The catalogue: every error response of this service is one of these. */
export const problems = {
  ...define(400, {
    validationFailed:
      'validation_failed: The request is not valid. One or more fields are missing, unknown or not acceptable; see ' +
      'errors.',
    malformedRequest:
      'malformed_request: The request cannot be read. The request line, the headers or the JSON body are ' +
      'malformed, or the body is not a JSON object.',
    bodyTooDeep:
      'body_too_deep: The body is nested too deeply. Nest objects and lists of the JSON body at most 16 levels deep.',
    duplicateHeader:
      'duplicate_header: A credential header arrived twice. Send each credential header, X-Platform-Target and ' +
      'X-Platform-Scope at most once.',
    nothingToLogOut:
      'nothing_to_log_out: Nothing to log out. Send a refresh_token, an access token as bearer, or both.',
    invalidSubjectToken:
      'invalid_subject_token: The subject token is not valid. The subject token is malformed, expired, of another ' +
      'audience, or its session or a pair of its chain has ended. Answer your own caller with 401.',
    invalidTarget:
      'invalid_target: The audience is not allowed. No live credential of this caller for the audience is for users.',
    invalidScope: 'invalid_scope: The scope is not allowed. The pair has not all of the scopes that were asked for.',
    unsupportedGrantType:
      'unsupported_grant_type: The grant type is not supported. The only grant is the exchange of tokens (RFC 8693), ' +
      'and it needs ACCESS_TOKEN_ALGORITHM=ES256.',
    invalidLink:
      'invalid_link: The link is not valid. The token of the link is unknown, used, replaced by a newer one, or ' +
      'expired. Ask for a new link.',
  }),
  ...define(
    401,
    {
      invalidCredentials:
        'invalid_credentials: The credentials are not valid. The e-mail address and the password do not belong to ' +
        'an active account.',
      invalidSecondFactor:
        'invalid_second_factor: The second factor is not valid. The code or the passkey is wrong or was used ' +
        'before, or the challenge is void: it lives 5 minutes, and a change of the password ends it.',
      invalidPasskey:
        'invalid_passkey: The passkey is not valid. The passkey does not belong to an active account, or the ' +
        'challenge has expired or was used before.',
      invalidRefreshToken:
        'invalid_refresh_token: The refresh token is not valid. The refresh token is unknown, expired, revoked or ' +
        'was used before, or its session began without the second factor that is required now. Log in again.',
      unauthenticated: 'unauthenticated: A credential is needed. Send one of the credentials that this route accepts.',
      missingAccessToken:
        'missing_access_token: An access token is needed. Send an access token: Authorization: Bearer <access ' +
        'token>.',
      invalidAccessToken:
        'invalid_access_token: The access token is not valid. The access token is malformed, expired or its ' +
        'session has ended.',
      invalidAppCredentials:
        'invalid_app_credentials: The app credentials are not valid. X-Platform-App-Id and X-Platform-App-Key are ' +
        'missing or do not name a live credential for this target.',
      invalidNodeCredentials:
        'invalid_node_credentials: The node credentials are not valid. X-API-Key is missing or does not name a ' +
        'live node: X-API-Key: <node_id>:<api_key>.',
      invalidAdminKey:
        'invalid_admin_key: The admin key is not valid. X-Admin-Key is missing, or is neither the admin key of ' +
        'this service nor the key of a live operator.',
    },
    {
      invalidAccessToken: {
        challenge: `Bearer ${REALM}, error="invalid_token", error_description="The access token is not valid"`,
      },
      invalidAppCredentials: { challenge: `PlatformApp ${REALM}`, extension: NOT_VALID },
      invalidNodeCredentials: { challenge: `NodeKey ${REALM}`, extension: NOT_VALID },
      invalidAdminKey: { challenge: `AdminKey ${REALM}` },
    },
  ),
  ...define(
    403,
    {
      secondFactorRequired:
        'second_factor_required: A second factor is required. The password is right. Answer the challenge by one ' +
        'of the methods: POST /api/v0/auth/login/second-factor.',
      secondFactorEnrolmentRequired:
        'second_factor_enrolment_required: A second factor must be enrolled. The password is right, and the service ' +
        'requires a second factor, which the account does not have. Enrol an authenticator app with the challenge, ' +
        'then log in again: POST /api/v0/auth/login/enrolment/totp.',
      freshSecondFactorRequired:
        'fresh_second_factor_required: A fresh second factor is required. The password is right, and the account has ' +
        'a second factor: send the request again with a `code`, or with the `passkey` that answers passkey_options.',
      wrongSecondFactor:
        'wrong_second_factor: The second factor is wrong. The code or passkey is wrong or was used before, its ' +
        'challenge has expired, or the factors were changed meanwhile; or the enrolment is missing or void: a change ' +
        'of the password or of the factors ends one that was not confirmed. Nothing was changed, and the access token stays valid.',
      registrationClosed:
        'registration_closed: Registration is closed. This service does not accept registrations. Ask an ' +
        'administrator for an account.',
      emailNotVerified:
        'email_not_verified: The e-mail address is not verified. Verify your e-mail address, then log in: open the ' +
        'link that was sent to it, or ask for a new one.',
      missingScope:
        'missing_scope: A scope is missing. The key is valid. The operator, or the app credential, needs one of ' +
        'the scopes that `scopes` lists.',
      exceedsOwnRights:
        'exceeds_own_rights: The operator would have more rights than the caller. An operator manages only ' +
        'operators with no scope that it lacks, and with no later expiry than its own.',
      foreignForm:
        'foreign_form: Not a form of this session. No page of this session of the console made the form. Open the ' +
        'page in the console again, and send its form.',
      notSubscribed:
        'not_subscribed: The service has no subscription. An operator subscribes it to types of events first, as the ' +
        'map or /api/v0/admin/event-subscriptions says.',
      missingRole:
        'missing_role: A role is missing. The caller is a member of the household, and the act needs the role admin.',
      enrolmentByOperatorsOnly:
        'enrolment_by_operators_only: Operators alone enrol nodes. Households enrol nodes where an operator has set ' +
        'HOUSEHOLD_NODE_TARGETS, and here it is not set.',
      wrongPassword:
        'wrong_password: The password is wrong. The current password is not right. Nothing was changed, and the ' +
        'access token stays valid.',
    },
    { missingScope: { extension: { scopes: ['nodes', 'read'] } } },
  ),
  ...define(404, { notFound: 'not_found: Not found. The resource does not exist, or the caller may not see it.' }),
  ...define(405, {
    methodNotAllowed:
      'method_not_allowed: The method is not allowed here. The path exists, and takes the methods that the Allow ' +
      'header lists.',
  }),
  ...define(408, {
    requestTimeout:
      'request_timeout: The request took too long to arrive. Send it again: it must arrive within 30 seconds.',
  }),
  ...define(409, {
    totpEnrolled:
      'totp_enrolled: The authenticator app is enrolled. The account has a confirmed authenticator app (TOTP). ' +
      'Remove it first.',
    lastSecondFactor:
      'last_second_factor: The account needs a second factor. The service requires one, and this is the last one of ' +
      'the account. Add another one first.',
    passkeyExists: 'passkey_exists: The passkey is registered already. Use it, or register another authenticator.',
    tooManyPasskeys:
      'too_many_passkeys: The account has too many passkeys. An account has 20 passkeys at most. Remove one first.',
    emailTaken: 'email_taken: The e-mail address is taken. There is already an account with this e-mail address.',
    appCredentialExists:
      'app_credential_exists: The pair has a live credential. There is already a live credential for this caller ' +
      'and target. Rotate or revoke it.',
    operatorExists:
      'operator_exists: The name is taken. There is already an operator with this name, in any letter case. Rotate ' +
      'or revoke it.',
    credentialRevoked:
      'credential_revoked: The credential is revoked. A revoked credential cannot be changed. Issue a new one.',
    credentialExpired:
      'credential_expired: The credential has expired. A new key for it would be refused. Extend it first, or ' +
      'issue a new one.',
    keyRotatedMeanwhile:
      'key_rotated_meanwhile: The key was rotated meanwhile. The last rotation was not at the moment that ' +
      'if_rotated_at names. Nothing was changed: another caller has the new key.',
    rotationUnfinished:
      'rotation_unfinished: The rotation is not finished. The key that the last rotation made is in use, and so ' +
      'may be the one before: a third would stop one of them. Install the new key everywhere and finish the ' +
      'rotation, or rotate with an overlap of 0 hours, which ends the others at once.',
    lastAdmin:
      'last_admin: The household would have no admin. The caller is the last active admin of a household with other ' +
      'members. Make another member admin first, or delete the household.',
    eventsBusy:
      'events_busy: Another poll reads. A consumer holds the subscription until 30 seconds after its last poll, and one ' +
      'poll of it reads at a time: stand by for as long as Retry-After says.',
    eventNotNext:
      'event_not_next: The event is not the oldest unread one. The service has acknowledged the event that `event` ' +
      'names, an operator passed over it, perhaps with this same call, or an older one is unread again. Nothing was ' +
      'changed: read oldest_unread again.',
    alreadyMember: 'already_member: The person is a member already. To change the role, send PATCH to the member.',
    householdFull:
      'household_full: The household is full. A household has at most 100 members, and its admins give it at most 50 ' +
      'live nodes, open enrolments included, and 20 open invitations.',
    tooManyHouseholds:
      'too_many_households: The user has too many households. A user creates or joins 32 households at most, and ' +
      'operators add one to 100 at most. Leave one first.',
    householdHasNodes:
      'household_has_nodes: The household has live nodes. Revoke them first, or have them revoked with it: ' +
      'revoke_nodes=true, on the command line --revoke-nodes.',
    invitationUsed:
      'invitation_used: The invitation was used. A person became a member with it, which a cancellation does not ' +
      'undo. Remove the member.',
    enrolmentUsed:
      'enrolment_used: The enrolment code was used. The code has enrolled a node, and a code works once. If that ' +
      'was another device, the operator revokes its node. Ask for a new code.',
    userDisabled:
      'user_disabled: The user is disabled. The password of a disabled user cannot be reset. Enable the user first.',
  }),
  ...define(413, { payloadTooLarge: 'payload_too_large: The body is too large. The body is larger than 100 KB.' }),
  ...define(415, {
    unsupportedMediaType:
      'unsupported_media_type: The body is not JSON. Send the body as application/json in UTF-8; the only forms are ' +
      'those of /internal/introspect and /internal/token.',
  }),
  ...define(421, {
    misdirectedRequest:
      'misdirected_request: The host is not this machine. The service runs with the public keys of platform-auth dev, ' +
      'so it answers only requests to localhost or a loopback address (DNS rebinding).',
  }),
  ...define(422, {
    idempotencyKeyReused:
      'idempotency_key_reused: The Idempotency-Key belongs to another request. This Idempotency-Key was sent with ' +
      'another body within the last 24 hours. Use a new key for a new request.',
  }),
  ...define(429, {
    tooManyRequests:
      'too_many_requests: Too many tries. Wait for as long as Retry-After says. This is not a verdict on the ' +
      'credential, which was not checked.',
  }),
  ...define(431, {
    headersTooLarge:
      'headers_too_large: The headers are too large. The request line and the headers together are larger than 16 ' +
      'KB.',
  }),
  ...define(500, {
    internalError:
      'internal_error: Internal error. The service failed to answer. The request id finds the cause in its logs.',
  }),
  ...define(
    503,
    {
      totpSecretUnreadable:
        'totp_secret_unreadable: Codes of the app cannot be checked. The secret of the authenticator app cannot be ' +
        'decrypted. This is not a verdict on the code: use a recovery code or a passkey. An operator must set ' +
        'MASTER_KEY_PREVIOUS to the former MASTER_KEY, or remove the second factors of the user.',
      unavailable:
        'unavailable: The service is unavailable. The database cannot be used at the moment, or the clock of the ' +
        'service is wrong. This is not a verdict on the credential: keep it and try again.',
      gatewayMisconfigured:
        'gateway_misconfigured: The gateway is not configured. The gateway must name the service that it protects ' +
        'in X-Platform-Target, and the scope of the route, if it needs one and asks the app door, in ' +
        'X-Platform-Scope: each once, as a valid name. This is not a verdict on the key.',
      hashingBusy:
        'hashing_busy: The call cannot be checked at the moment. Too many passwords, codes or calls wait to be checked, ' +
        'or no thread could be made. This is not a verdict on the credential: keep it and try again shortly.',
    },
    { totpSecretUnreadable: { retryAfterSeconds: 300 } },
  ),
};

/** The 415 of a route that takes a form, with the type and the code of every 415. */
export const formExpected: Problem = {
  ...problems.unsupportedMediaType,
  title: 'The body is not a form',
  detail: 'Send the body as application/x-www-form-urlencoded in UTF-8.',
};

interface RefusalOf<Event extends RefusalEventName> {
  readonly event: Event;
  readonly reason: RefusalReason<Event>;
  readonly fields?: Readonly<Record<string, string | undefined>>;
  /** Number of refusals that the event stands for, when not each is logged. */
  readonly count?: number;
}

/** The reason of a refusal, which is logged as a security event (ASVS 16.3) and never sent to the caller. */
export type RefusalEvent = { [Event in RefusalEventName]: RefusalOf<Event> }[RefusalEventName];

export interface Occurrence {
  readonly errors?: readonly FieldError[];
  readonly refusal?: RefusalEvent;
  /** False for most refusals of a flood, and for a mistake that is logged once. The metrics count all of them. */
  readonly isLogged?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Additional members of the body for this occurrence (RFC 9457 §3.2). */
  readonly members?: object;
  /** Fields of an error that is logged, because the 503 lasts until an operator acts. */
  readonly fault?: LogFields;
  readonly cause?: unknown;
}

/**
 * Ends a request with a problem of the catalogue. Only a 5xx, which is logged, has a stack trace: for a refusal it
 * would cost more than the check of the credential.
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

  withHeaders(headers: Readonly<Record<string, string>>): ProblemException {
    const { problem, occurrence } = this;
    return new ProblemException(problem, { ...occurrence, headers: { ...occurrence.headers, ...headers } });
  }
}

/** Refusals of a route that counts calls or guesses: over a limit, and while too many calls wait to be counted. */
export const THROTTLE_PROBLEMS = [problems.tooManyRequests, problems.hashingBusy];

/** Maximum number of rejected fields that a response names. */
export const MAX_ERRORS = 20;

/**
 * Builds the body of RFC 9457 §3. `instance` identifies the occurrence without the path, which may contain anything.
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

export function toProblemType(problem: Problem): string {
  return `/problems/${problem.code.replaceAll('_', '-')}`;
}

/** @param pointer JSON Pointer (RFC 6901) into the body or the query; empty for a header, or for the whole */
export function createFieldProblem(pointer: string, detail: string): ProblemException {
  return new ProblemException(problems.validationFailed, { errors: [{ pointer, detail }] });
}

export function refuseField(pointer: string, detail: string): never {
  throw createFieldProblem(pointer, detail);
}

export const UNKNOWN_FIELD = 'is not a field of this request';

/** Refuses unknown fields, because a caller would believe that they took effect. @param known the only known field */
export function refuseUnknownFields(body: unknown, known?: string): void {
  if (typeof body !== 'object' || body === null) return;
  const unknown = Object.keys(body).filter((name) => name !== known);
  if (unknown.length === 0) return;
  const errors = unknown.map((name) => ({ pointer: `/${toPointerToken(name)}`, detail: UNKNOWN_FIELD }));
  throw new ProblemException(problems.validationFailed, { errors });
}

/** @returns the name as a token of a JSON Pointer (RFC 6901); `?` when the name may be a payload */
export function toPointerToken(name: string): string {
  return /^([a-z_]{1,32}|\d{1,3})$/.test(name) ? name : '?';
}
