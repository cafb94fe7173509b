// What the challenges of users are bound to (challenges/challenges.ts).

import type { AccountState } from '../passwords/password-verifier.js';

export type FactorsState = Pick<AccountState, 'passwordChangedAt' | 'factorsChangedAt'>;

type EnrolmentState = FactorsState & { readonly passwordHashDigest: string };

/**
 * The context of an enrolment at a login, which any change of the password or the factors voids. It contains the stored
 * hash, because a reader of MASTER_KEY could otherwise forge a challenge and enrol for an account without a factor.
 */
export function toEnrolmentContext(user: EnrolmentState): string {
  return [toFactorsContext(user), user.passwordHashDigest].join(' ');
}

/**
 * The context of the options of a new passkey, which any change of the password or the factors voids. A thief of the
 * password and an access token could otherwise keep options from before the first factor, and add a passkey after it.
 */
export function toFactorsContext(user: FactorsState): string {
  return [toPasswordContext(user), user.factorsChangedAt?.toISOString() ?? ''].join(' ');
}

/** The context of challenges that follow a password, which another password voids. */
export function toPasswordContext({ passwordChangedAt }: { readonly passwordChangedAt: Date | null }): string {
  return passwordChangedAt?.toISOString() ?? '';
}
