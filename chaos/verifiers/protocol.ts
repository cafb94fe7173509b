/** What is presented at one of the doors that verifiers guard. */
export interface VerifierQuestion {
  readonly id: number;
  readonly door: 'app' | 'node' | 'user';
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** `status`: 200 accepted, 401 refused, 403 without the scope, 503 unavailable; anything else is a mistake of the verifier. */
export interface VerifierAnswer {
  readonly id: number;
  readonly status: number;
  readonly code: string;
}
