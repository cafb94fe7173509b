import type { RefusalEvent } from './problem.exception.js';

/** What is noted about a request in `response.locals` while it is answered. */
export interface RequestOutcome {
  /** Why it was refused, when it was. */
  refusal?: RefusalEvent | undefined;
  /** One of many like it: the log has no line about it. */
  isUnlogged?: boolean;
  /** The service that an app key is presented to: this one when unset, and null when the service that asks did not say. */
  presentedTo?: string | null;
}
