/**
 * What libraries read to verify access tokens themselves: the JWKS (RFC 7517), and the metadata that names it (RFC
 * 8414).
 */
import { Controller, Get, Res } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { Public } from '../../foundation/access/route-decorators.js';
import { Environment } from '../../foundation/config/environment.js';
import type { KeyPair } from '../../foundation/crypto/key-pair.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { TOKEN_EXCHANGE_GRANT } from '../../domain/delegation/token-exchange.service.js';
import { JWKS_MAX_AGE_SECONDS } from '../../domain/signing-keys/signing-key-rotation.js';
import { SigningKeysService } from '../../domain/signing-keys/signing-keys.service.js';

class JwkResponse {
  @ApiProperty({ enum: ['EC'] }) kty!: 'EC';
  @ApiProperty({ enum: ['P-256'] }) crv!: 'P-256';
  @ApiProperty({ type: String, example: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU' }) x!: string;
  @ApiProperty({ type: String, example: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0' }) y!: string;

  @ApiProperty({ type: String, description: 'RFC 7638', example: 'oKIywvGUpTVTyxMQ3bwIIeQUudfr_CkLMjCE19ECD-U' })
  kid!: string;

  @ApiProperty({ enum: ['sig'] }) use!: 'sig';
  @ApiProperty({ enum: ['ES256'] }) alg!: 'ES256';

  static from({ jwk: { kty, crv, x, y }, kid }: KeyPair): JwkResponse {
    return { kty, crv, x, y, kid, use: 'sig', alg: 'ES256' };
  }
}

class JwksResponse {
  @ApiProperty({ type: [JwkResponse] }) keys!: JwkResponse[];
}

@ApiTags('auth')
@Controller('.well-known')
export class JwksController {
  constructor(private readonly keys: SigningKeysService) {}

  @Get('jwks.json')
  @Public({
    summary: 'The public keys that verify access tokens (RFC 7517)',
    description:
      'Empty under HS256. A new key is shown here for longer than this answer may be cached before it signs, and a ' +
      'retired one as long as its tokens live. Read the keys again when a token has an unknown `kid`.',
    returns: JwksResponse,
  })
  async listSigningKeys(@Res({ passthrough: true }) response: Response): Promise<JwksResponse> {
    const keys = (await this.keys.listPublishedKeys()).map((key) => JwkResponse.from(key));
    response.setHeader('Cache-Control', `public, max-age=${JWKS_MAX_AGE_SECONDS}`);
    return { keys };
  }
}

const METADATA_MAX_AGE_SECONDS = 3_600;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

class ServerMetadataResponse {
  @ApiProperty({
    type: String,
    format: 'uri',
    description: 'the `iss` of access tokens',
    example: 'https://auth.example.org',
  })
  issuer!: string;

  @ApiProperty({ type: String, format: 'uri', example: 'https://auth.example.org/.well-known/jwks.json' })
  jwks_uri!: string;

  @ApiPropertyOptional({
    type: String,
    format: 'uri',
    description: 'absent where it is on INTERNAL_PORT only',
    example: 'https://auth.example.org/internal/introspect',
  })
  introspection_endpoint?: string;

  @ApiPropertyOptional({ type: 'array', items: { type: 'string' }, example: ['client_secret_basic'] })
  introspection_endpoint_auth_methods_supported?: string[];

  @ApiPropertyOptional({
    type: String,
    format: 'uri',
    description: 'the exchange of tokens (RFC 8693); absent under HS256, and where it is on INTERNAL_PORT only',
    example: 'https://auth.example.org/internal/token',
  })
  token_endpoint?: string;

  @ApiPropertyOptional({ type: 'array', items: { type: 'string' }, example: ['client_secret_basic'] })
  token_endpoint_auth_methods_supported?: string[];

  @ApiProperty({
    type: 'array',
    items: { type: 'string' },
    maxItems: 0,
    description: 'none: this is no OAuth flow',
    example: [],
  })
  response_types_supported!: string[];

  @ApiProperty({
    type: 'array',
    items: { type: 'string' },
    maxItems: 1,
    description: 'that of token_endpoint',
    example: [TOKEN_EXCHANGE_GRANT],
  })
  grant_types_supported!: string[];
}

/**
 * States no OAuth flow, because users log in by `/api/v0/auth/login`. The two empty arrays are shown although RFC 8414
 * §3.2 omits such: §2 requires the one, and reads the absence of the other as two flows.
 */
@ApiTags('auth')
@Controller('.well-known')
export class ServerMetadataController {
  constructor(private readonly environment: Environment) {}

  @Get('oauth-authorization-server')
  @Public({
    summary: 'Where libraries find the keys and the introspection (RFC 8414)',
    description:
      'Needs a JWT_ISSUER that is the https URL of this service; 404 otherwise, because the RFC demands that URL and every address ' +
      'here begins with it. There is no OpenID configuration: this service issues no ID tokens.',
    refusals: [problems.notFound],
    returns: ServerMetadataResponse,
  })
  getServerMetadata(@Res({ passthrough: true }) response: Response): ServerMetadataResponse {
    const { jwtIssuer: issuer, internalPort, accessTokenAlgorithm } = this.environment;
    const hasTokens = internalPort === undefined && accessTokenAlgorithm === 'ES256';
    if (!isIssuerUrl(issuer)) throw new ProblemException(problems.notFound);
    const base = issuer.replace(/\/$/, '');
    response.setHeader('Cache-Control', `public, max-age=${METADATA_MAX_AGE_SECONDS}`);
    return {
      issuer,
      jwks_uri: `${base}/.well-known/jwks.json`,
      ...(internalPort === undefined && {
        introspection_endpoint: `${base}/internal/introspect`,
        introspection_endpoint_auth_methods_supported: ['client_secret_basic'],
      }),
      ...(hasTokens && {
        token_endpoint: `${base}/internal/token`,
        token_endpoint_auth_methods_supported: ['client_secret_basic'],
      }),
      response_types_supported: [],
      grant_types_supported: hasTokens ? [TOKEN_EXCHANGE_GRANT] : [],
    };
  }
}

/** RFC 8414 §2: https, without query and fragment. Plain HTTP is for a developer's own machine. */
function isIssuerUrl(issuer: string): boolean {
  if (!URL.canParse(issuer)) return false;
  const { protocol, hostname, search, hash, username } = new URL(issuer);
  const isSafe = protocol === 'https:' || (protocol === 'http:' && LOOPBACK.has(hostname));
  return isSafe && search === '' && hash === '' && username === '';
}
