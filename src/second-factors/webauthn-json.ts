import { decodeClientDataJSON } from '@simplewebauthn/server/helpers';
import { z } from 'zod';
import { refuseField } from '../problems/refused-fields.js';

const MAX_BINARY_LENGTH = 8_192;
/** WebAuthn §5.8.4 lists them, and later versions may add some. */
const transport = z.string().regex(/^[a-z0-9-]{1,32}$/);

const binary = z
  .string()
  .regex(/^[A-Za-z0-9_-]+$/)
  .max(MAX_BINARY_LENGTH);
/** WebAuthn §6.1.1: at most 1,023 bytes. */
const credentialId = binary.max(1_364);
const credential = { id: credentialId, rawId: credentialId, type: z.literal('public-key') };
/** Not used: nothing depends on an extension. */
const clientExtensionResults = z.unknown().transform(() => ({}));

const registration = z.object({
  ...credential,
  clientExtensionResults,
  response: z.object({
    clientDataJSON: binary,
    attestationObject: binary,
    transports: z.array(transport).max(8).default([]),
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

/** What `PublicKeyCredential.toJSON()` returns in a browser (WebAuthn §5.1). Fields that it may add later are ignored. */
export type RegistrationJson = z.output<typeof registration>;
export type AuthenticationJson = z.output<typeof authentication>;

/** @returns undefined when it is not in this form */
export function parseRegistration(passkey: object): RegistrationJson | undefined {
  return registration.safeParse(passkey).data;
}

/** @throws {ProblemException} validation_failed when it is not in this form */
export function parseAuthentication(passkey: object): AuthenticationJson {
  const detail = 'must be what PublicKeyCredential.toJSON() returns in a browser, after navigator.credentials.get()';
  return authentication.safeParse(passkey).data ?? refuseField('/passkey', detail);
}

/** @returns the challenge that the client answers; empty when there is none */
export function readChallenge({ response }: RegistrationJson | AuthenticationJson): string {
  try {
    const { challenge } = decodeClientDataJSON(response.clientDataJSON) as { challenge?: unknown };
    return typeof challenge === 'string' ? challenge : '';
  } catch {
    return '';
  }
}

/**
 * Whether the page was not in a frame of another origin: none may show the login of this service, or hide it below its own
 * buttons (WebAuthn L3 §7.1 and §7.2).
 * @throws when the client data is not JSON
 */
export function isOfTopLevelPage({ response }: RegistrationJson | AuthenticationJson): boolean {
  const { crossOrigin, topOrigin } = decodeClientDataJSON(response.clientDataJSON);
  return !crossOrigin && topOrigin === undefined;
}
