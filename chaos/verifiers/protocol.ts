/** What a caller presents at a door that a verifier guards. */
export interface VerifierQuestion {
  readonly id: number;
  readonly door: 'app' | 'node' | 'user';
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** At the door `user`: the route is for members of this household. */
  readonly member?: { readonly household: string; readonly role?: 'admin' } | undefined;
}

/** `status` is 200, 401, 403 for a missing scope or role, 404 for who is no member, or 503; anything else is a fault of the verifier. */
export interface VerifierAnswer {
  readonly id: number;
  readonly status: number;
  readonly code: string;
}
