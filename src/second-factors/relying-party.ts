import { Injectable } from '@nestjs/common';
import {
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
  type VerifiedRegistrationResponse,
} from '@simplewebauthn/server';
import { cose, decodeAttestationObject, decodeCredentialPublicKey } from '@simplewebauthn/server/helpers';
import { parse } from 'uuid';
import { Environment } from '../config/environment.js';
import { ProblemException, problems } from '../problems/problems.js';
import { CHALLENGE_TTL_SECONDS } from './challenges.js';
import type { UserWithFactors } from './second-factors.service.js';
import type { PasskeyCreationOptionsResponse, PasskeyRequestOptionsResponse } from './webauthn-options.dto.js';
import { isOfTopLevelPage, type AuthenticationJson, type RegistrationJson } from './webauthn-json.js';

const TIMEOUT_MS = CHALLENGE_TTL_SECONDS * 1_000;
/** RSA with 4,096 bits has 550: a larger one makes each verification slow. */
const MAX_PUBLIC_KEY_BYTES = 800;
/** NIST SP 800-131A. */
const MIN_RSA_BITS = 2_048;
const ATTESTATION_FORMATS = ['none', 'packed'];

type VerifiedPasskey = Extract<VerifiedRegistrationResponse, { verified: true }>['registrationInfo'];

interface StoredPasskey {
  readonly credentialId: Buffer;
  readonly publicKey: Buffer;
}

/** The relying party of WebAuthn: makes the options that a browser gets, and verifies what it answers. */
@Injectable()
export class RelyingParty {
  constructor(private readonly environment: Environment) {}

  /** @throws {ProblemException} not_found without WEBAUTHN_RP_ID */
  async createRegistrationOptions(
    { id, email, passkeys }: UserWithFactors,
    challenge: string,
  ): Promise<PasskeyCreationOptionsResponse> {
    const { rpId } = this.settings;
    const authenticatorSelection = { residentKey: 'required', userVerification: 'preferred' } as const;
    const options = await generateRegistrationOptions({
      rpName: rpId,
      rpID: rpId,
      userName: email,
      userDisplayName: email,
      userID: toUserHandle(id),
      challenge: toBytes(challenge),
      attestationType: 'none',
      authenticatorSelection,
    });
    const excludeCredentials = passkeys.map(toDescriptor);
    return { ...options, timeout: TIMEOUT_MS, attestation: 'none', excludeCredentials, authenticatorSelection };
  }

  /**
   * @param passkeys of the user who has presented the password; undefined: the client asks the user for one
   * @throws {ProblemException} not_found without WEBAUTHN_RP_ID
   */
  createAuthenticationOptions(
    challenge: string,
    passkeys?: UserWithFactors['passkeys'],
  ): PasskeyRequestOptionsResponse {
    const { rpId } = this.settings;
    const userVerification = passkeys ? 'preferred' : 'required';
    const allowCredentials = passkeys?.map(toDescriptor);
    return { rpId, challenge, timeout: TIMEOUT_MS, userVerification, ...(allowCredentials && { allowCredentials }) };
  }

  /** @returns undefined when the answer is not valid */
  async verifyRegistration(response: RegistrationJson, challenge: string): Promise<VerifiedPasskey | undefined> {
    const { rpId: expectedRPID, origins: expectedOrigin } = this.settings;
    try {
      if (!hasPlainAttestation(response) || !isOfTopLevelPage(response)) return undefined;
      const expected = { expectedChallenge: challenge, expectedOrigin, expectedRPID };
      const result = await verifyRegistrationResponse({ response, ...expected, requireUserVerification: false });
      if (!result.verified) return undefined;
      return isAcceptableKey(result.registrationInfo.credential.publicKey) ? result.registrationInfo : undefined;
    } catch {
      return undefined;
    }
  }

  /**
   * Verifies the signature, not the counter: the statement that stores it decides.
   * @returns the counter, and whether the private key may be copied; undefined when the answer is not valid
   */
  async verifyAuthentication(
    response: AuthenticationJson,
    challenge: string,
    { credentialId, publicKey }: StoredPasskey,
    requireUserVerification: boolean,
  ): Promise<{ readonly counter: number; readonly isSynced: boolean } | undefined> {
    const { rpId: expectedRPID, origins: expectedOrigin } = this.settings;
    try {
      if (!isOfTopLevelPage(response)) return undefined;
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        response: response as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
        expectedChallenge: challenge,
        expectedOrigin,
        expectedRPID,
        credential: { id: credentialId.toString('base64url'), publicKey: Uint8Array.from(publicKey), counter: 0 },
        requireUserVerification,
      });
      const { newCounter: counter, credentialDeviceType } = authenticationInfo;
      return verified ? { counter, isSynced: credentialDeviceType === 'multiDevice' } : undefined;
    } catch {
      return undefined;
    }
  }

  get isConfigured(): boolean {
    return this.environment.webauthnRpId !== undefined;
  }

  private get settings(): { rpId: string; origins: string[] } {
    const { webauthnRpId: rpId, webauthnOrigins: origins } = this.environment;
    if (rpId === undefined || origins === undefined) throw new ProblemException(problems.notFound);
    return { rpId, origins };
  }
}

/** WebAuthn §5.8.3. */
function toDescriptor({ id, transports }: UserWithFactors['passkeys'][number]): object {
  return { id, transports, type: 'public-key' };
}

/** The user handle of a passkey: the id of the user, which tells nothing about the person (WebAuthn §14.6.1). */
export function toUserHandle(userId: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(parse(userId));
}

function toBytes(challenge: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(challenge, 'base64url'));
}

/**
 * No certificates: none were asked for, and to check whether one is revoked the library would fetch the URL that it
 * names (server-side request forgery).
 */
function hasPlainAttestation({ response }: RegistrationJson): boolean {
  const attestation = decodeAttestationObject(toBytes(response.attestationObject));
  return ATTESTATION_FORMATS.includes(attestation.get('fmt')) && attestation.get('attStmt').get('x5c') === undefined;
}

/** @throws when it is not a key */
function isAcceptableKey(publicKey: Uint8Array<ArrayBuffer>): boolean {
  if (publicKey.length > MAX_PUBLIC_KEY_BYTES) return false;
  const key = decodeCredentialPublicKey(publicKey);
  return !cose.isCOSEPublicKeyRSA(key) || countBits(key.get(cose.COSEKEYS.n) ?? new Uint8Array(1)) >= MIN_RSA_BITS;
}

/** Of an unsigned number. Its first bytes may be 0. */
function countBits(bytes: Uint8Array): number {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`).toString(2).length;
}
