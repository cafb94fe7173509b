import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { CharactersBetween, IfSent } from '../common/fields.js';
import type { TokenPair } from '../tokens/access-tokens.js';

const REFRESH_TOKEN = {
  minLength: 1,
  maxLength: 512,
  description: 'opaque; the refresh_token of the last login or refresh response',
  example: 'pa_rt_AZhfTnw6e1KdHi9qjEsNEQAAAAB…',
};

export class RefreshRequest {
  @ApiProperty(REFRESH_TOKEN)
  @CharactersBetween(1, 512)
  refresh_token!: string;
}

export class LogoutRequest {
  @ApiPropertyOptional(REFRESH_TOKEN)
  @IfSent()
  @CharactersBetween(1, 512)
  refresh_token?: string;
}

/** RFC 6749 §5.1. */
export class TokenPairResponse {
  @ApiProperty({
    description: 'JWT, signed with HS256 or ES256 (`ACCESS_TOKEN_ALGORITHM`)',
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIwMTk4NWY0ZSJ9.c2lnbmF0dXJl',
  })
  access_token!: string;

  @ApiProperty({ description: 'opaque; shown once', example: 'pa_rt_AZhfTnw6e1KdHi9qjEsNEQAAAAB…' })
  refresh_token!: string;

  @ApiProperty({ enum: ['Bearer'] })
  token_type!: 'Bearer';

  @ApiProperty({ type: 'integer', description: 'seconds until the access token expires', example: 900 })
  expires_in!: number;

  static from({ accessToken, refreshToken, ttlSeconds }: TokenPair): TokenPairResponse {
    return { access_token: accessToken, refresh_token: refreshToken, token_type: 'Bearer', expires_in: ttlSeconds };
  }
}
