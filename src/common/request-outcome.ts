import type { RefusalEvent } from './problem.exception.js';

/** What is noted about a request in `response.locals` while it is answered, for whoever counts answers. */
export interface RequestOutcome {
  /** Why it was refused, when it was. */
  refusal?: RefusalEvent | undefined;
  /** One of many like it: the log has no line about it. */
  isUnlogged?: boolean;
  /** The service that vouched for somebody else's credential with a good one of its own. */
  forwardedBy?: string;
}
