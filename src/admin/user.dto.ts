import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsBoolean } from 'class-validator';
import { EmailField, IfSent, MOMENT, NETWORK, NULLABLE_MOMENT } from '../common/fields.js';
import { EXAMPLES } from '../common/examples.js';
import { PageQuery, createPageResponse } from '../http/page.js';
import { SESSION_END_REASONS, type Session } from '../tokens/session.entity.js';

export class UpdateUserRequest {
  @ApiProperty({ example: false, description: 'false ends all sessions and refuses logins' })
  @IsBoolean({ message: 'must be true or false' })
  is_active!: boolean;
}

export class UsersQuery extends PageQuery {
  @IfSent()
  @EmailField()
  @ApiPropertyOptional({ type: String, format: 'email', maxLength: 254, example: EXAMPLES.email })
  email?: string;
}

export class SessionResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  id!: string;

  @ApiProperty(MOMENT)
  created_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the login' })
  created_from!: string | null;

  @ApiProperty({ type: String, nullable: true, description: 'of the login', example: EXAMPLES.userAgent })
  user_agent!: string | null;

  @ApiProperty({ ...MOMENT, description: 'the last refresh, or the login' })
  rotated_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the last refresh' })
  rotated_from!: string | null;

  @ApiProperty({ ...MOMENT, description: 'when its refresh token expires if it is not used' })
  expires_at!: string;

  @ApiProperty({ ...MOMENT, description: 'when it ends even if it is used' })
  absolute_expires_at!: string;

  @ApiProperty(NULLABLE_MOMENT)
  ended_at!: string | null;

  @ApiProperty({ type: String, enum: [...SESSION_END_REASONS, null], nullable: true, example: null })
  end_reason!: string | null;

  static from(session: Session): SessionResponse {
    return {
      id: session.id,
      created_at: session.createdAt.toISOString(),
      created_from: session.createdFrom,
      user_agent: session.userAgent,
      rotated_at: session.rotatedAt.toISOString(),
      rotated_from: session.rotatedFrom,
      expires_at: session.expiresAt.toISOString(),
      absolute_expires_at: session.absoluteExpiresAt.toISOString(),
      ended_at: session.endedAt?.toISOString() ?? null,
      end_reason: session.endReason,
    };
  }
}

export class SessionPageResponse extends createPageResponse<Session, SessionResponse>(SessionResponse) {}
