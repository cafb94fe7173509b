import { ApiProperty } from '@nestjs/swagger';
import type { Session } from '../../domain/tokens/session.entity.js';
import { ID, MOMENT, NETWORK } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';

export abstract class SessionFields {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ ...MOMENT, description: 'the login' }) created_at!: string;

  @ApiProperty({ ...NETWORK, description: 'the network of the login: an IPv4 address, or an IPv6 /64' })
  created_from!: string | null;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'of the login: printable ASCII, at most 200 characters. The client chose it: escape it',
    example: EXAMPLES.userAgent,
  })
  user_agent!: string | null;

  @ApiProperty({ ...MOMENT, description: 'when it expires if it is not used' }) expires_at!: string;
  @ApiProperty({ ...MOMENT, description: 'when it ends even if it is used' }) absolute_expires_at!: string;

  protected static toFields(session: Session): SessionFields {
    return {
      id: session.id,
      created_at: session.createdAt.toISOString(),
      created_from: session.createdFrom,
      user_agent: session.userAgent,
      expires_at: session.expiresAt.toISOString(),
      absolute_expires_at: session.absoluteExpiresAt.toISOString(),
    };
  }
}
