// Answers that platform-auth never gives, or gives when it has no verdict.
import * as standIn from '../guards/stand-in.js';
import type { StandIn } from '../guards/stand-in.js';

type Answers = Parameters<StandIn['answerWith']>;

export interface FailureCase {
  readonly name: string;
  readonly answers: Answers;
}

const challenge =
  (value: string, status = 401): Answers[number] =>
  (response) =>
    void response.writeHead(status, { 'WWW-Authenticate': value, 'Content-Type': 'text/html' }).end('<h1>Sign in</h1>');

export const FAILURE_CASES: readonly FailureCase[] = [
  { name: 'is unavailable', answers: [standIn.problem(503, 'unavailable')] },
  { name: 'breaks connections', answers: [standIn.breakConnection] },
  { name: 'hangs', answers: [standIn.hang] },
  { name: 'fails', answers: [standIn.problem(500, 'internal_error')] },
  { name: 'does not know the path', answers: [standIn.problem(404, 'not_found')] },
  { name: 'forbids', answers: [standIn.problem(403, 'forbidden')] },
  { name: 'asks to wait', answers: [standIn.problem(429, 'too_many_requests')] },
  { name: 'redirects', answers: [standIn.redirect] },
  { name: 'is another server that answers 200', answers: [standIn.page(200)] },
  { name: 'is another server that answers 400', answers: [standIn.page(400)] },
  { name: 'is another server that answers 401', answers: [standIn.page(401)] },
  { name: 'is another server that demands a password', answers: [challenge('Basic realm="intranet"')] },
  {
    name: 'is another server that demands a token',
    answers: [challenge('Bearer realm="intranet", error="invalid_token"')],
  },
  {
    name: 'is another server that demands a scope',
    answers: [challenge('PlatformApp realm="intranet", error="insufficient_scope", scope="x"', 403)],
  },
  { name: 'is another server that answers 431', answers: [standIn.page(431)] },
];
