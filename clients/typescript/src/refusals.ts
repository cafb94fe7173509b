import { type Problem, problems } from '../../../src/problems/problems.js';
import type { Door } from './principals.js';

/** The service's own problem documents. */
export const REFUSALS: Readonly<Record<Door, Problem>> = {
  app: problems.invalidAppCredentials,
  node: problems.invalidNodeCredentials,
  user: problems.invalidAccessToken,
};
export const MISSING_TOKEN: Problem = problems.missingAccessToken;
export const DUPLICATE_HEADER: Problem = problems.duplicateHeader;
export const UNAVAILABLE: Problem = {
  ...problems.unavailable,
  detail:
    'The authentication service cannot be asked at the moment. This is not a verdict on the credential: keep it and try again.',
};
