import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { CharactersBetween, IfSent } from '../common/fields.js';

const REFRESH_TOKEN = {
  minLength: 1,
  maxLength: 512,
  description: 'opaque; as login or the last refresh returned it',
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
