export { Verifier } from './verifier.js';
export type { VerifierOptions, VerifierLogger } from './options.js';
export type { AppDemands, VerifierCore } from './verifier-core.js';
export type { Counts, Verdict } from './verdict-counts.js';
export type { Watch } from './watch.js';
export { findPrincipal, getPrincipal } from './guard.js';
export type { TestVerifier, TestVerifierOptions, TestCredential } from './test-verifier.js';
export type { PresentedRequest } from './presented-request.js';
export type { AppPrincipal, NodePrincipal, UserPrincipal, Principal, Principals, Door } from './principals.js';
export {
  MissingScopeError,
  RefusedError,
  UnavailableError,
  VerificationError,
  VerifierConfigurationError,
  type ProblemResponse,
} from './errors.js';
