import type { Problem } from './problem.js';

export const REALM = 'realm="platform-auth"';
/** A member of the body of each refused validation. */
export const NOT_VALID = { valid: false } as const;

/** The 401s of the catalogue: verdicts on a credential. */
export const unauthorized = {
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
} as const satisfies Record<string, Problem>;
