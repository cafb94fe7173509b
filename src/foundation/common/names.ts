// Names and words that requests, metrics, log lines and the audit log share, and their examples.

/** The form of a kind of name, and the detail of the problem when a text has another form. */
export interface NameKind {
  readonly schema: { readonly type: 'string'; readonly pattern: string; readonly maxLength: number };
  readonly detail: string;
  readonly isName: (value: unknown) => value is string;
}

/** @param characters two classes of a regular expression: the first character's, then the others' */
function defineName(characters: string, maxLength: number, detail: string): NameKind {
  const pattern = `^${characters}{0,${maxLength - 1}}$`;
  const form = new RegExp(pattern);
  const isName = (value: unknown): value is string => typeof value === 'string' && form.test(value);
  return { schema: { type: 'string', pattern, maxLength }, detail, isName };
}

/** ASCII letters, digits and `._-` only: no two names look alike, and no name is an e-mail address. */
function defineIdentifier(maxLength: number): NameKind {
  const detail = `must be 1 to ${maxLength} letters, digits, dots, dashes or underscores`;
  return defineName('[A-Za-z0-9][A-Za-z0-9._-]', maxLength, detail);
}

/** The name of a service of the platform, as in the map of who calls whom. */
export const SERVICE_NAME_FORMAT = defineIdentifier(100);
export const OPERATOR_NAME_FORMAT = defineIdentifier(64);
/** What an app credential may do at its target, which gives each name its meaning. */
export const APP_SCOPE_FORMAT = defineName(
  '[a-z][a-z0-9._:-]',
  64,
  'must be a lower-case letter, then up to 63 of a-z, 0-9, dots, dashes, colons or underscores',
);

/** @returns the names of the variables that hold the credential for a target: `OCR_APP_ID` and `OCR_APP_KEY` */
export function toCredentialVariables(target: string): { readonly id: string; readonly key: string } {
  return { id: `${toVariablePrefix(target)}_APP_ID`, key: `${toVariablePrefix(target)}_APP_KEY` };
}

/** @returns the beginning of the names of a service's variables: `OCR` for `ocr` */
export function toVariablePrefix(service: string): string {
  return service.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
}

export function toCanonicalOperatorName(name: string): string {
  return name.toLowerCase();
}

/** Maximum number of targets of a node, and of scopes of an app credential. */
export const MAX_RESTRICTIONS = 32;

/**
 * Whether a value is a list of 1 to {@link MAX_RESTRICTIONS} different names. An empty list would make the key useless.
 */
export function isRestriction(value: unknown, isName: (each: unknown) => each is string): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_RESTRICTIONS) return false;
  return new Set(value).size === value.length && value.every(isName);
}

/** What an operator may do at the admin door. The root key, ADMIN_API_KEY, has every scope. */
export const OPERATOR_SCOPES = ['read', 'nodes', 'apps', 'users', 'operators'] as const;
export type OperatorScope = (typeof OPERATOR_SCOPES)[number];

/**
 * The operator scope of a route. `any`: every operator may call it, and the response contains what their scopes allow.
 */
export type RouteScope = OperatorScope | 'any';

/** @returns the scopes of which a call needs one: that of its route, or `read` for GET and HEAD */
export function listAcceptedScopes(ofRoute: RouteScope, method: string): readonly OperatorScope[] {
  if (ofRoute === 'any') return OPERATOR_SCOPES;
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead && ofRoute !== 'read' ? [ofRoute, 'read'] : [ofRoute];
}

export function sortOperatorScopes(scopes: readonly OperatorScope[]): OperatorScope[] {
  return OPERATOR_SCOPES.filter((scope) => scopes.includes(scope));
}

/** Whether a value is a list of at least one scope, without repetition. */
export function isOperatorScopeList(value: unknown): value is OperatorScope[] {
  if (!Array.isArray(value) || value.length === 0 || new Set(value).size !== value.length) return false;
  return value.every((each) => OPERATOR_SCOPES.some((scope) => scope === each));
}

export const SECOND_FACTOR_METHODS = ['totp', 'recovery_code', 'passkey'] as const;
export type SecondFactorMethod = (typeof SECOND_FACTOR_METHODS)[number];

export const HOUSEHOLD_ROLES = ['admin', 'member'] as const;
export type HouseholdRole = (typeof HOUSEHOLD_ROLES)[number];

/**
 * The OpenAPI document, the help of `platform-auth` and the README use the same examples, so that a reader can continue
 * from one in another.
 */
export const EXAMPLES = {
  id: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11',
  moment: '2026-11-21T09:00:00.000Z',
  email: 'alice@example.org',
  password: 'correct horse battery',
  newPassword: 'staple the correct horse',
  network: '192.0.2.7',
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  householdId: '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
  room: 'kitchen',
  name: 'speaker',
  caller: 'ocr',
  target: 'recipes',
  appScope: 'documents:read',
  resetToken: 'pa_reset_3q2-7wAbC0dEfGhIjKlMnOpQrStUvWxYz…',
  emailToken: 'pa_email_3q2-7wAbC0dEfGhIjKlMnOpQrStUvWxYz…',
  enrolmentCode: '7KQ2M-XV9TB',
  invitationCode: '7KQ2MXV9TB4H0C8WZ3N6RJ5E',
  operator: 'alice',
} as const;
