import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';

const RP_ID = 'example.org';
const PUBLIC_KEY = 'public-key';
const CREDENTIAL = { id: 'AQIDBA', type: PUBLIC_KEY, transports: ['internal'] };
const OBJECT = { type: 'object', additionalProperties: true } as const;
const LIST = { type: 'array', items: OBJECT } as const;
const CHALLENGE = { type: String, description: 'base64url; single use, for 5 minutes', example: 'AgGT…' };
const TIMEOUT = { type: 'integer', description: 'milliseconds', example: 300_000 } as const;

/** WebAuthn §5.1, PublicKeyCredentialCreationOptionsJSON. A browser converts it with parseCreationOptionsFromJSON(). */
export class PasskeyCreationOptionsResponse {
  @ApiProperty({ ...OBJECT, example: { id: RP_ID, name: RP_ID } })
  rp!: object;

  @ApiProperty({
    ...OBJECT,
    example: { id: 'AZhfTnw6e1KdHi9qjEsNEQ', name: EXAMPLES.email, displayName: EXAMPLES.email },
  })
  user!: object;

  @ApiProperty(CHALLENGE)
  challenge!: string;

  @ApiProperty({ ...LIST, example: [{ alg: -7, type: PUBLIC_KEY }] })
  pubKeyCredParams!: object[];

  @ApiProperty(TIMEOUT)
  timeout!: number;

  @ApiProperty({ ...LIST, description: 'the passkeys that the user has', example: [CREDENTIAL] })
  excludeCredentials!: object[];

  @ApiProperty({ ...OBJECT, example: { residentKey: 'required', userVerification: 'preferred' } })
  authenticatorSelection!: object;

  @ApiProperty({ type: String, example: 'none' })
  attestation!: string;
}

/** WebAuthn §5.1, PublicKeyCredentialRequestOptionsJSON. A browser converts it with parseRequestOptionsFromJSON(). */
export class PasskeyRequestOptionsResponse {
  @ApiProperty(CHALLENGE)
  challenge!: string;

  @ApiProperty({ type: String, example: RP_ID })
  rpId!: string;

  @ApiProperty(TIMEOUT)
  timeout!: number;

  @ApiProperty({ type: String, example: 'required' })
  userVerification!: string;
}
