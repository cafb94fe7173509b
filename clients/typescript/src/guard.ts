import { toVerificationError, type ProblemResponse } from './errors.js';
import type { PresentedRequest } from './presented-request.js';
import type { Door, Principal, RequestAuth } from './principals.js';
import type { VerifierCore } from './verifier-core.js';

/** @returns what the route may use, or the response to send. Never rejects: a guard never causes a 500. */
export async function guard(
  verifier: VerifierCore,
  door: Door,
  request: PresentedRequest,
): Promise<{ readonly auth: RequestAuth } | { readonly refusal: ProblemResponse }> {
  try {
    return { auth: (await verify(verifier, door, request)) as RequestAuth };
  } catch (error) {
    return { refusal: toVerificationError(error).toResponse() };
  }
}

function verify(verifier: VerifierCore, door: Door, request: PresentedRequest): Promise<Principal> {
  switch (door) {
    case 'app':
      return verifier.verifyApp(request);
    case 'node':
      return verifier.verifyNode(request);
    case 'user':
      return verifier.verifyUser(request);
  }
}
