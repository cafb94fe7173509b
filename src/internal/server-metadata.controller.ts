import { Controller, Get, Res } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Response } from 'express';
import { Answers, Public } from '../access/require.js';
import { Environment } from '../config/environment.js';
import { ApiProblems } from '../problems/api-problems.js';
import { ProblemException, problems } from '../problems/problems.js';

const MAX_AGE_SECONDS = 3_600;
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]']);

export class ServerMetadataResponse {
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

  @ApiProperty({
    type: 'array',
    items: { type: 'string' },
    maxItems: 0,
    description: 'none: this is no OAuth flow',
    example: [],
  })
  response_types_supported!: string[];

  @ApiProperty({ type: 'array', items: { type: 'string' }, maxItems: 0, description: 'none', example: [] })
  grant_types_supported!: string[];
}

/**
 * Only what is true here: users log in by `/api/v0/auth/login`, and not by a flow of OAuth. RFC 8414 §3.2 omits empty arrays, but §2 requires
 * `response_types_supported`, and reads absent `grant_types_supported` as two flows that do not exist here: both are shown empty.
 */
@ApiTags('auth')
@Controller('.well-known')
export class ServerMetadataController {
  constructor(private readonly environment: Environment) {}

  @Get('oauth-authorization-server')
  @Public()
  @ApiProblems(problems.notFound)
  @ApiOperation({
    summary: 'Where libraries find the keys and the introspection (RFC 8414)',
    description:
      'Needs a JWT_ISSUER that is the https URL of this service; 404 otherwise, because the RFC demands that URL and every address ' +
      'here begins with it. There is no OpenID configuration: this service issues no ID tokens.',
  })
  @Answers(200, ServerMetadataResponse)
  getServerMetadata(@Res({ passthrough: true }) response: Response): ServerMetadataResponse {
    const { jwtIssuer: issuer, internalPort } = this.environment;
    if (!isIssuerUrl(issuer)) throw new ProblemException(problems.notFound);
    const base = issuer.replace(/\/$/, '');
    response.setHeader('Cache-Control', `public, max-age=${MAX_AGE_SECONDS}`);
    return {
      issuer,
      jwks_uri: `${base}/.well-known/jwks.json`,
      ...(internalPort === undefined && {
        introspection_endpoint: `${base}/internal/introspect`,
        introspection_endpoint_auth_methods_supported: ['client_secret_basic'],
      }),
      response_types_supported: [],
      grant_types_supported: [],
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
