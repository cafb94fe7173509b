import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { MOMENT } from '../common/fields.js';
import type { IssuedToken } from '../users/one-time-tokens.js';

export class PasswordResetResponse {
  @ApiProperty({ description: 'shown once; valid once', example: EXAMPLES.resetToken })
  token!: string;

  @ApiProperty({ ...MOMENT, description: '30 minutes from now' })
  expires_at!: string;

  static from({ token, expiresAt }: IssuedToken): PasswordResetResponse {
    return { token, expires_at: expiresAt.toISOString() };
  }
}
