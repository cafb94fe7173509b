import { ApiProperty } from '@nestjs/swagger';

/** RFC 6749 §5.1. */
export class TokenPairResponse {
  @ApiProperty({
    description: 'JWT (HS256)',
    example: 'eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIwMTk4NWY0ZSJ9.c2lnbmF0dXJl',
  })
  access_token!: string;

  @ApiProperty({ description: 'opaque; shown once', example: 'pa_rt_AZhfTnw6e1KdHi9qjEsNEQAAAAB…' })
  refresh_token!: string;

  @ApiProperty({ enum: ['Bearer'] })
  token_type!: 'Bearer';

  @ApiProperty({ type: 'integer', description: 'seconds until the access token expires', example: 900 })
  expires_in!: number;
}
