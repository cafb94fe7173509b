/**
 * The protocol of passkeys (WebAuthn Level 3): options for a browser, and verification of its answers. Terms: the relying
 * party is this service (WEBAUTHN_RP_ID), a registration creates a passkey, an authentication uses it. The rooms that
 * store passkeys (second-factors, operators) look up the public key, consume the challenge and advance the counter.
 */
import { applyDecorators, Injectable } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { AuthenticationResponseJSON, VerifiedRegistrationResponse } from '@simplewebauthn/server';
import { IsObject } from 'class-validator';
import { parse } from 'uuid';
import * as z from 'zod';
import { EXAMPLES } from '../../foundation/common/names.js';
import type { Presence } from '../../foundation/common/fields.js';
import { Environment } from '../../foundation/config/environment.js';
import { createFieldProblem, ProblemException, problems, refuseField } from '../../foundation/problems/problems.js';
import { CHALLENGE_TTL_SECONDS } from '../challenges/challenges.js';

/** Loaded at the first use, because it would be a tenth of what a start loads. */
const loadWebAuthn = () => import('@simplewebauthn/server');
const loadDecoders = () => import('@simplewebauthn/server/helpers');

const EXAMPLE_RP_ID = 'example.org';
const PUBLIC_KEY = 'public-key';
const CREDENTIAL = { id: 'AQIDBA', type: PUBLIC_KEY, transports: ['internal'] };
const OBJECT = { type: 'object', additionalProperties: true } as const;
const LIST = { type: 'array', items: OBJECT } as const;
const CHALLENGE = { type: String, description: 'base64url; single use, for 5 minutes', example: 'AgGT…' };
const TIMEOUT = { type: 'integer', description: 'milliseconds', example: 300_000 } as const;

/** WebAuthn §5.1, PublicKeyCredentialCreationOptionsJSON. A browser converts it with parseCreationOptionsFromJSON(). */
export class PasskeyCreationOptionsResponse {
  @ApiProperty({ ...OBJECT, example: { id: EXAMPLE_RP_ID, name: EXAMPLE_RP_ID } }) rp!: object;

  @ApiProperty({
    ...OBJECT,
    example: { id: 'AZhfTnw6e1KdHi9qjEsNEQ', name: EXAMPLES.email, displayName: EXAMPLES.email },
  })
  user!: object;

  @ApiProperty(CHALLENGE) challenge!: string;
  @ApiProperty({ ...LIST, example: [{ alg: -7, type: PUBLIC_KEY }] }) pubKeyCredParams!: object[];
  @ApiProperty(TIMEOUT) timeout!: number;

  @ApiProperty({ ...LIST, description: 'the passkeys that the user has', example: [CREDENTIAL] })
  excludeCredentials!: object[];

  @ApiProperty({ ...OBJECT, example: { residentKey: 'required', userVerification: 'preferred' } })
  authenticatorSelection!: object;

  @ApiProperty({ type: String, example: 'none' }) attestation!: string;
}

/** WebAuthn §5.1, PublicKeyCredentialRequestOptionsJSON. A browser converts it with parseRequestOptionsFromJSON(). */
export class PasskeyRequestOptionsResponse {
  @ApiProperty(CHALLENGE) challenge!: string;
  @ApiProperty({ type: String, example: EXAMPLE_RP_ID }) rpId!: string;
  @ApiProperty(TIMEOUT) timeout!: number;
  @ApiProperty({ type: String, example: 'required' }) userVerification!: string;
}

const MAX_BINARY_LENGTH = 8_192;
export const MAX_TRANSPORTS = 8;
/** Accepts any word, because later versions of WebAuthn may add transports to those of §5.8.4. */
const transport = z.string().regex(/^[a-z0-9-]{1,32}$/);

const binary = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/)
  .max(MAX_BINARY_LENGTH);
/** At most 1,023 bytes (WebAuthn §6.1.1). */
const credentialId = binary.max(1_364);
const credential = { id: credentialId, rawId: credentialId, type: z.literal('public-key') };
/** Discarded, because this service uses no extension. */
const clientExtensionResults = z.unknown().transform(() => ({}));

const registration = z.object({
  ...credential,
  clientExtensionResults,
  response: z.object({
    clientDataJSON: binary,
    attestationObject: binary,
    transports: z.array(transport).max(MAX_TRANSPORTS).default([]),
  }),
});

const authentication = z.object({
  ...credential,
  clientExtensionResults,
  response: z.object({
    clientDataJSON: binary,
    authenticatorData: binary,
    signature: binary,
    userHandle: binary
      .or(z.literal(''))
      .nullish()
      .transform((handle) => handle || undefined),
  }),
});

/** The result of `PublicKeyCredential.toJSON()` in a browser (WebAuthn §5.1). Unknown fields are ignored. */
export type RegistrationJson = z.output<typeof registration>;
export type AuthenticationJson = z.output<typeof authentication>;

/** The answer of a browser. An optional field needs a further rule that decides when it is checked. */
export function PasskeyField(
  description = 'what toJSON() of the PublicKeyCredential returns in the browser (WebAuthn)',
  { optional = false }: Presence = {},
): PropertyDecorator {
  return applyDecorators(
    (optional ? ApiPropertyOptional : ApiProperty)({
      type: 'object',
      additionalProperties: true,
      description,
      example: { id: 'AQIDBA', rawId: 'AQIDBA', type: 'public-key', response: {}, clientExtensionResults: {} },
    }),
    IsObject({ message: 'must be the JSON of a PublicKeyCredential' }),
  );
}

export function parseRegistration(passkey: object): RegistrationJson | undefined {
  return registration.safeParse(passkey).data;
}

export function parseAuthentication(passkey: object): AuthenticationJson {
  const detail = 'must be what PublicKeyCredential.toJSON() returns in a browser, after navigator.credentials.get()';
  return authentication.safeParse(passkey).data ?? refuseField('/passkey', detail);
}

/** Parses the client data (WebAuthn §5.8.1). @throws when it is not JSON */
function readClientData({ clientDataJSON }: { clientDataJSON: string }): Partial<Record<string, unknown>> {
  return JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString()) as Partial<Record<string, unknown>>;
}

/** @returns the challenge that the browser claims to answer; empty when it names none */
export function readChallenge({ response }: RegistrationJson | AuthenticationJson): string {
  try {
    const { challenge } = readClientData(response);
    return typeof challenge === 'string' ? challenge : '';
  } catch {
    return '';
  }
}

/**
 * Whether the page of the answer was in no frame of another origin, in which another site could hide the login below
 * its own buttons (clickjacking; WebAuthn §7.1 and §7.2).
 */
function isOfTopLevelPage({ response }: RegistrationJson | AuthenticationJson): boolean {
  const { crossOrigin, topOrigin } = readClientData(response);
  return !crossOrigin && topOrigin === undefined;
}

const TIMEOUT_MS = CHALLENGE_TTL_SECONDS * 1_000;
/** Larger keys would slow down each verification. An RSA key of 4,096 bits has 550 bytes. */
const MAX_PUBLIC_KEY_BYTES = 800;
const MIN_RSA_BITS = 2_048;
const ATTESTATION_FORMATS = ['none', 'packed'];

export type VerifiedPasskey = Extract<VerifiedRegistrationResponse, { verified: true }>['registrationInfo'];

/** @param owner whose options the browser should have answered */
export function createInvalidRegistration(owner: 'account' | 'operator'): ProblemException {
  const detail = `must be the answer of the browser to options of this ${owner}, not older than 5 minutes, and used once`;
  return createFieldProblem('/passkey', detail);
}

/** A passkey as the options name it to the browser. */
export interface KnownPasskey {
  /** Credential id in base64url. */
  readonly id: string;
  readonly transports: string[];
}

interface PasskeyOwner {
  readonly id: string;
  /** What the browser and the authenticator show. */
  readonly name: string;
  readonly passkeys: readonly KnownPasskey[];
}

export interface StoredPasskey {
  readonly ownerId: string;
  readonly credentialId: Buffer;
  readonly publicKey: Buffer;
}

interface AuthenticatorSelection {
  readonly residentKey: 'required' | 'discouraged';
  readonly userVerification: 'required' | 'preferred';
}

/** What an answer must have beside a valid signature. */
interface AnswerRequirements {
  /** That the authenticator verified the person, by a PIN or a fingerprint. */
  readonly verification: boolean;
  /** That it names its owner (WebAuthn §7.2, step 6). */
  readonly userHandle: boolean;
}

@Injectable()
export class RelyingParty {
  constructor(private readonly environment: Environment) {}

  async createRegistrationOptions(
    { id, name, passkeys }: PasskeyOwner,
    challenge: string,
    authenticatorSelection: AuthenticatorSelection,
  ): Promise<PasskeyCreationOptionsResponse> {
    const { rpId } = this.settings;
    const { generateRegistrationOptions } = await loadWebAuthn();
    const options = await generateRegistrationOptions({
      rpName: rpId,
      rpID: rpId,
      userName: name,
      userDisplayName: name,
      userID: toUserHandle(id),
      challenge: toBytes(challenge),
      attestationType: 'none',
      authenticatorSelection,
    });
    const excludeCredentials = passkeys.map(toDescriptor);
    return { ...options, timeout: TIMEOUT_MS, attestation: 'none', excludeCredentials, authenticatorSelection };
  }

  /** @param passkeys those that the browser offers; undefined: the browser lets the user choose one */
  createAuthenticationOptions(
    challenge: string,
    userVerification: 'required' | 'preferred',
    passkeys?: readonly KnownPasskey[],
  ): PasskeyRequestOptionsResponse {
    const { rpId } = this.settings;
    const allowCredentials = passkeys?.map(toDescriptor);
    return { rpId, challenge, timeout: TIMEOUT_MS, userVerification, ...(allowCredentials && { allowCredentials }) };
  }

  /** @returns undefined for an invalid answer */
  async verifyRegistration(
    response: RegistrationJson,
    challenge: string,
    requireUserVerification: boolean,
  ): Promise<VerifiedPasskey | undefined> {
    const { rpId: expectedRPID, origins: expectedOrigin } = this.settings;
    try {
      const { verifyRegistrationResponse } = await loadWebAuthn();
      if (!(await hasPlainAttestation(response)) || !isOfTopLevelPage(response)) return undefined;
      const expected = { expectedChallenge: challenge, expectedOrigin, expectedRPID };
      const result = await verifyRegistrationResponse({ response, ...expected, requireUserVerification });
      if (!result.verified) return undefined;
      const { credential } = result.registrationInfo;
      // The library checks the id in the answer only, and not the one that the authenticator states.
      const isAcceptable = credential.id === response.id && (await isAcceptableKey(credential.publicKey));
      return isAcceptable ? result.registrationInfo : undefined;
    } catch {
      return undefined;
    }
  }

  /** @returns the new counter, and whether the private key may be copied; undefined for an invalid answer */
  async verifyAuthentication(
    response: AuthenticationJson,
    challenge: string,
    { ownerId, credentialId, publicKey }: StoredPasskey,
    { verification: requireUserVerification, userHandle }: AnswerRequirements,
  ): Promise<{ readonly counter: number; readonly isSynced: boolean } | undefined> {
    const { rpId: expectedRPID, origins: expectedOrigin } = this.settings;
    try {
      if (!isOfTopLevelPage(response) || !hasHandleOf(response, ownerId, !userHandle)) return undefined;
      const { verifyAuthenticationResponse } = await loadWebAuthn();
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        response: response as AuthenticationResponseJSON,
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

function toDescriptor({ id, transports }: KnownPasskey): object {
  return { id, transports, type: 'public-key' };
}

/** The user handle is the id of the owner, which reveals nothing about the person (WebAuthn §14.6.1). */
function toUserHandle(ownerId: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(parse(ownerId));
}

function toBytes(challenge: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(challenge, 'base64url'));
}

/**
 * Refuses certificates, which the options do not ask for. To check the revocation of one, the library would fetch a URL
 * that the client chose (server-side request forgery).
 */
async function hasPlainAttestation({ response }: RegistrationJson): Promise<boolean> {
  const { decodeAttestationObject } = await loadDecoders();
  const attestation = decodeAttestationObject(toBytes(response.attestationObject));
  return ATTESTATION_FORMATS.includes(attestation.get('fmt')) && attestation.get('attStmt').get('x5c') === undefined;
}

async function isAcceptableKey(publicKey: Uint8Array<ArrayBuffer>): Promise<boolean> {
  if (publicKey.length > MAX_PUBLIC_KEY_BYTES) return false;
  const { cose, decodeCredentialPublicKey } = await loadDecoders();
  const key = decodeCredentialPublicKey(publicKey);
  return !cose.isCOSEPublicKeyRSA(key) || countBits(key.get(cose.COSEKEYS.n) ?? new Uint8Array(1)) >= MIN_RSA_BITS;
}

/** Counts bits, because the bytes of a modulus may begin with zeros. */
function countBits(bytes: Uint8Array): number {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`).toString(2).length;
}

function hasHandleOf({ response }: AuthenticationJson, ownerId: string, mayBeAbsent: boolean): boolean {
  if (response.userHandle === undefined) return mayBeAbsent;
  return Buffer.from(response.userHandle, 'base64url').equals(toUserHandle(ownerId));
}
