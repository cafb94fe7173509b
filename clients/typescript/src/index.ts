export { Verifier } from './verifier.js';
export type { VerifierOptions, VerifierLogger } from './options.js';
export type { AppDemands, VerifierCore } from './verifier-core.js';
export type { TokenDemands, UserDemands } from './delegation.js';
export type { EventsOptions, PlatformEvent } from './platform-event.js';
export type { MemberDemands } from './membership.js';
export type { Counts, Verdict } from './verdict-counts.js';
export type { Watch } from './watch.js';
export { findPrincipal, getPrincipal } from './guard.js';
export type { TestVerifier, TestVerifierOptions, TestCredential } from './test-verifier.js';
export type { PresentedRequest } from './presented-request.js';
export type {
  AnyUserPrincipal,
  AppPrincipal,
  DelegatedUserPrincipal,
  DelegationLink,
  Door,
  HouseholdRole,
  Membership,
  NodePrincipal,
  Principal,
  Principals,
  UserPrincipal,
} from './principals.js';
export {
  DelegationNotAcceptedError,
  DelegationRequiredError,
  MissingRoleError,
  MissingScopeError,
  NotAMemberError,
  RefusedError,
  UnavailableError,
  VerificationError,
  VerifierConfigurationError,
  type ProblemResponse,
} from './errors.js';
