import { ApiProperty } from '@nestjs/swagger';
import { EXAMPLES } from '../common/examples.js';
import { MOMENT, NETWORK, PasswordField } from '../common/fields.js';
import { createPageResponse, type Page } from '../http/page.js';
import type { Session } from '../tokens/session.entity.js';

const CURRENT_PASSWORD = { description: 'The password of the account. A wrong one counts like a failed login.' };

export class ChangePasswordRequest {
  @PasswordField(CURRENT_PASSWORD)
  current_password!: string;

  @PasswordField({
    description: 'It needs PASSWORD_MIN_LENGTH characters (8) and must not be a common one.',
    example: EXAMPLES.newPassword,
  })
  new_password!: string;
}

export class DeleteAccountRequest {
  @PasswordField(CURRENT_PASSWORD)
  password!: string;
}

interface OwnSession {
  readonly session: Session;
  readonly isCurrent: boolean;
}

export class OwnSessionResponse {
  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  id!: string;

  @ApiProperty({ description: 'whether the access token of this request belongs to it', example: true })
  is_current!: boolean;

  @ApiProperty({ ...MOMENT, description: 'the login' })
  created_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the login: an IPv4 address, or an IPv6 /64' })
  created_from!: string | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'of the login: printable ASCII, at most 200 characters. The client chose it: escape it',
    example: EXAMPLES.userAgent,
  })
  user_agent!: string | null;

  @ApiProperty({ ...MOMENT, description: 'the last refresh, or the login' })
  last_used_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the last refresh, or of the login' })
  last_used_from!: string | null;

  @ApiProperty({ ...MOMENT, description: 'when it expires if it is not used' })
  expires_at!: string;

  @ApiProperty({ ...MOMENT, description: 'when it ends even if it is used' })
  absolute_expires_at!: string;

  static from({ session, isCurrent }: OwnSession): OwnSessionResponse {
    return {
      id: session.id,
      is_current: isCurrent,
      created_at: session.createdAt.toISOString(),
      created_from: session.createdFrom,
      user_agent: session.userAgent,
      last_used_at: session.rotatedAt.toISOString(),
      last_used_from: session.rotatedFrom ?? session.createdFrom,
      expires_at: session.expiresAt.toISOString(),
      absolute_expires_at: session.absoluteExpiresAt.toISOString(),
    };
  }
}

export class OwnSessionPageResponse extends createPageResponse<OwnSession, OwnSessionResponse>(OwnSessionResponse) {}

/** @param currentId the session of the request */
export function markCurrent({ items, nextCursor }: Page<Session>, currentId: string): Page<OwnSession> {
  return { items: items.map((session) => ({ session, isCurrent: session.id === currentId })), nextCursor };
}
