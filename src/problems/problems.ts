// The problems that every door, route and guard answers with; src/problems/problem.filter.ts turns errors into responses.

import type { Problem } from './problem.js';
import { factorProblems } from './factor-problems.js';
import { unauthorized } from './unauthorized.js';

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
  ...unauthorized,
  ...factorProblems,
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
    detail:
      'The login is right, and the account must prove its e-mail address first. Open the link that was sent to it, or ' +
      'ask for a new one, and log in again.',
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

/** Of the route that takes a form: the type and the code are those of every 415. */
export const formExpected: Problem = {
  ...problems.unsupportedMediaType,
  title: 'The body is not a form',
  detail: 'Send the body as application/x-www-form-urlencoded in UTF-8: token=<access token>.',
};
