import type { EntityManager } from 'typeorm';
import type { User } from './users.service.js';

// When an address of an account was first proven, by its link or by an operator. The moment never changes: a reset by mail
// removes the second factors that are older (recovery/link-confirmations.ts).

/** A replica whose clock is ahead of `$2`, or behind, may have made a factor. */
const FIND_MOMENTS = `SELECT LEAST($2::timestamptz, min(created_at)) AS before,
    GREATEST($2::timestamptz, max(created_at) + interval '1 millisecond') AS after
  FROM (SELECT created_at FROM totp_factors WHERE user_id = $1
        UNION ALL SELECT created_at FROM passkeys WHERE user_id = $1) AS factors`;

type ProvenUser = Pick<User, 'id' | 'email' | 'emailVerifiedAt' | 'firstProofAt'>;

export function getFirstProof({ emailVerifiedAt, firstProofAt }: ProvenUser): Date | null {
  return emailVerifiedAt ?? firstProofAt;
}

/**
 * The first proof of another address counts as older than every factor: the password alone chooses that address, and must
 * not be enough to remove the factors by a reset.
 */
export async function determineFirstProof(
  transaction: EntityManager,
  user: ProvenUser,
  provenEmail: string,
  now: Date,
): Promise<Date> {
  const known = getFirstProof(user);
  if (known) return known;
  const [moments] = await transaction.query<[{ before: Date; after: Date }]>(FIND_MOMENTS, [user.id, now]);
  return provenEmail === user.email ? moments.after : moments.before;
}
