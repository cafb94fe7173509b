export { Verifier } from './verifier.js';
export type { VerifierOptions, VerifierLogger } from './options.js';
export type { VerifierCore } from './verifier-core.js';
export type { TestVerifier, TestVerifierOptions, TestCredential } from './test-verifier.js';
export type { PresentedRequest } from './presented-request.js';
export type { AppPrincipal, NodePrincipal, UserPrincipal, Principal, RequestAuth, Door } from './principals.js';
export {
  RefusedError,
  UnavailableError,
  VerificationError,
  VerifierConfigurationError,
  type ProblemResponse,
} from './errors.js';
