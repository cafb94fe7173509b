import type { Door, HouseholdRole } from './principals.js';

export type Doors<D extends Door = Door> = readonly [D, ...D[]];

/** A response to a request that was not accepted (RFC 9457), as the service documents it. */
export interface Problem {
  readonly status: number;
  /** A stable snake_case word, on which callers may branch. */
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Further members of the body. */
  readonly extension?: Readonly<Record<string, unknown>>;
}

const REALM = 'realm="platform-auth"';

export const REFUSALS: Readonly<Record<Door, Problem>> = {
  app: {
    status: 401,
    code: 'invalid_app_credentials',
    title: 'The app credentials are not valid',
    detail: 'X-Platform-App-Id and X-Platform-App-Key are missing or do not name a live credential for this target.',
    headers: { 'WWW-Authenticate': `PlatformApp ${REALM}` },
    extension: { valid: false },
  },
  node: {
    status: 401,
    code: 'invalid_node_credentials',
    title: 'The node credentials are not valid',
    detail: 'X-API-Key is missing or does not name a live node: X-API-Key: <node_id>:<api_key>.',
    headers: { 'WWW-Authenticate': `NodeKey ${REALM}` },
    extension: { valid: false },
  },
  user: {
    status: 401,
    code: 'invalid_access_token',
    title: 'The access token is not valid',
    detail: 'The access token is malformed, expired or its session has ended.',
    headers: {
      'WWW-Authenticate': `Bearer ${REALM}, error="invalid_token", error_description="The access token is not valid"`,
    },
  },
};

export const MISSING_TOKEN: Problem = {
  status: 401,
  code: 'missing_access_token',
  title: 'An access token is needed',
  detail: 'Send an access token: Authorization: Bearer <access token>.',
  headers: { 'WWW-Authenticate': `Bearer ${REALM}` },
};

export const DUPLICATE_HEADER: Problem = {
  status: 400,
  code: 'duplicate_header',
  title: 'A credential header arrived twice',
  detail: 'Send each credential header, X-Platform-Target and X-Platform-Scope at most once.',
  extension: { errors: [] },
};

/** @param scope that the route needs */
export function createMissingScope(scope: string): Problem {
  return {
    status: 403,
    code: 'missing_scope',
    title: 'A scope is missing',
    detail: 'The key is valid. The operator, or the app credential, needs one of the scopes that `scopes` lists.',
    extension: { scopes: [scope] },
  };
}

export const DELEGATION_NOT_ACCEPTED: Problem = {
  status: 403,
  code: 'delegation_not_accepted',
  title: 'A delegated token is not accepted here',
  detail:
    'The token is valid, and was issued to a service on behalf of a user. This route accepts users themselves alone.',
};

export const DELEGATION_REQUIRED: Problem = {
  status: 403,
  code: 'delegation_required',
  title: 'A delegated token is needed',
  detail: 'The token is valid, and is a user’s own. This route accepts services that call on behalf of a user alone.',
};

/** The same for a household that does not exist. */
export const NOT_A_MEMBER: Problem = {
  status: 404,
  code: 'not_found',
  title: 'Not found',
  detail: 'The resource does not exist, or the caller may not see it.',
};

/** @param role that the route needs */
export function createMissingRole(role: HouseholdRole): Problem {
  return {
    status: 403,
    code: 'missing_role',
    title: 'A role is missing',
    detail: `The caller is a member of the household, and the act needs the role ${role}.`,
  };
}

/** Refuses a request without a credential of any of these doors: with the problem of the first, and the challenges of all. */
export function createMissingCredential([first, ...others]: Doors): Problem {
  const refusals = [first, ...others].map((door) => (door === 'user' ? MISSING_TOKEN : REFUSALS[door]));
  const challenges = refusals.map(({ headers }) => headers?.['WWW-Authenticate']);
  return { ...(refusals[0] as Problem), headers: { 'WWW-Authenticate': challenges.join(', ') } };
}

export const UNAVAILABLE: Problem = {
  status: 503,
  code: 'unavailable',
  title: 'The service is unavailable',
  detail:
    'The authentication service cannot be asked at the moment. This is not a verdict on the credential: keep it and try again.',
  headers: { 'Retry-After': '2' },
};
