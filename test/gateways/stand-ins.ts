// Answers that platform-auth never gives, or gives when it has no verdict.
import * as standIn from '../guards/stand-in.js';
import type { StandIn } from '../guards/stand-in.js';

export interface FailureCase {
  readonly name: string;
  readonly answers: Parameters<StandIn['answerWith']>;
  /** nginx takes each 2xx and each 401 for a verdict. */
  readonly isBeyond?: readonly string[];
}

export const FAILURE_CASES: readonly FailureCase[] = [
  { name: 'is unavailable', answers: [standIn.problem(503, 'unavailable')] },
  { name: 'breaks connections', answers: [standIn.breakConnection] },
  { name: 'hangs', answers: [standIn.hang] },
  { name: 'fails', answers: [standIn.problem(500, 'internal_error')] },
  { name: 'does not know the path', answers: [standIn.problem(404, 'not_found')] },
  { name: 'forbids', answers: [standIn.problem(403, 'forbidden')] },
  { name: 'asks to wait', answers: [standIn.problem(429, 'too_many_requests')] },
  { name: 'redirects', answers: [standIn.redirect] },
  { name: 'is another server that answers 200', answers: [standIn.page(200)], isBeyond: ['nginx'] },
];
