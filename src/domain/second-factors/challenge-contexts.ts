// What the challenges of users are bound to (challenges/challenges.ts).

import type { AccountState } from '../passwords/password-verifier.js';

type EnrolmentState = Pick<AccountState, 'passwordChangedAt' | 'factorsChangedAt'> & {
  readonly passwordHashDigest: string;
};

/**
 * The context of an enrolment at a login, which any change of the password or the factors voids. It contains the stored
 * hash, because a reader of MASTER_KEY could otherwise forge a challenge and enrol for an account without a factor.
 */
export function toEnrolmentContext(user: EnrolmentState): string {
  return [toPasswordContext(user), user.factorsChangedAt?.toISOString() ?? '', user.passwordHashDigest].join(' ');
}

/** The context of challenges that follow a password, which another password voids. */
export function toPasswordContext({ passwordChangedAt }: { readonly passwordChangedAt: Date | null }): string {
  return passwordChangedAt?.toISOString() ?? '';
}
