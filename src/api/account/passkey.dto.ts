import { ApiProperty } from '@nestjs/swagger';
import type { Passkey } from '../../domain/webauthn/relying-party.js';
import { ID, MOMENT } from '../../foundation/common/fields.js';

export class PasskeyResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ example: 'phone' }) name!: string;

  @ApiProperty({ description: 'whether the authenticator may copy it to other devices', example: true })
  is_synced!: boolean;

  @ApiProperty(MOMENT) created_at!: string;

  @ApiProperty({ ...MOMENT, nullable: true, description: 'the last login with it', example: null })
  last_used_at!: string | null;

  static from({ id, name, isSynced, createdAt, lastUsedAt }: Passkey): PasskeyResponse {
    const last_used_at = lastUsedAt?.toISOString() ?? null;
    return { id, name, is_synced: isSynced, created_at: createdAt.toISOString(), last_used_at };
  }
}

export class PasskeysResponse {
  @ApiProperty({ type: [PasskeyResponse], description: 'oldest first; at most 20' }) items!: PasskeyResponse[];

  static from(passkeys: readonly Passkey[]): PasskeysResponse {
    return { items: passkeys.map((passkey) => PasskeyResponse.from(passkey)) };
  }
}
