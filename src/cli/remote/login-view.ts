import { encodeSegment } from './remote-command.js';

/** As the service explains a login from one address, or from any. */
export interface LoginView {
  readonly accepted_now: boolean;
  readonly methods: readonly string[];
  readonly second_factors: readonly string[];
  readonly email_verified_at: string | null;
  readonly reasons: readonly { readonly code: string; readonly detail: string; readonly until: string | null }[];
}

/** @returns the path of a {@link LoginView} */
export function buildLoginPath(userId: string): string {
  return `/users/${encodeSegment(userId)}/explain`;
}
