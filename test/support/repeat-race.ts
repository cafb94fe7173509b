import { IS_NIGHTLY } from '../../tools/nightly.js';

export const ROUNDS = IS_NIGHTLY ? 50 : 10;
/** Rounds wait for leases most of their time. */
const AT_ONCE = 5;

/** Runs a race often enough that its participants meet in each order. The rounds share no session. */
export async function repeatRace(race: () => Promise<void>): Promise<void> {
  for (let round = 0; round < ROUNDS; round += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, race));
}
