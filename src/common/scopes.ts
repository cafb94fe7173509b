/** What an operator may do at the admin door. The root key, ADMIN_API_KEY, has every scope. */
export const SCOPES = ['read', 'nodes', 'apps', 'users', 'operators'] as const;
export type Scope = (typeof SCOPES)[number];

/** @returns the scopes of which a call needs one: the scope of its route, or `read` for a call that changes nothing */
export function listAcceptedScopes(ofRoute: Scope, method: string): readonly Scope[] {
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead && ofRoute !== 'read' ? [ofRoute, 'read'] : [ofRoute];
}

/** @returns the list in the order of {@link SCOPES} */
export function sortScopes(scopes: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => scopes.includes(scope));
}

/** Whether a list of a request names scopes, each once, and at least one. */
export function isScopeList(value: unknown): value is Scope[] {
  if (!Array.isArray(value) || value.length === 0 || new Set(value).size !== value.length) return false;
  return value.every((each) => SCOPES.some((scope) => scope === each));
}
