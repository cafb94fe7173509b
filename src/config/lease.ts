/** A call that revokes waits for the lease, so a longer one would delay its caller too much. */
export const MAX_LEASE_MS = 5_000;
/** The clocks of two machines may differ in rate. */
const CLOCK_RATE_MARGIN = 0.02;
/** Timers may fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

/** @returns how long a call that revokes waits, so that every lease of this length has ended when it answers */
export function computeRevocationWaitMs(leaseMs: number): number {
  return leaseMs === 0 ? 0 : Math.ceil(leaseMs * (1 + CLOCK_RATE_MARGIN) + TIMER_MARGIN_MS);
}
