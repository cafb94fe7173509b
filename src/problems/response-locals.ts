import type { Scope } from '../common/scopes.js';
import type { RefusalEvent } from './problem.exception.js';

/** What is noted about a request in `response.locals`. */
export interface ResponseLocals {
  /** Set when the request was refused. */
  refusal?: RefusalEvent | undefined;
  /** One refusal of a flood: it is not logged. */
  isUnlogged?: boolean;
  /**
   * The service that an app key was presented to: this one when unset; null when the forwarding service did not name
   * itself.
   */
  presentedTo?: string | null;
  /** The scope that the route declares, where it accepts the admin door. */
  scope?: Scope | undefined;
}
