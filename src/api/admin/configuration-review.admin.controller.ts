import { Get } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { RootKey } from '../../domain/operators/root-key.js';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { NULLABLE_MOMENT } from '../../foundation/common/fields.js';
import { Environment } from '../../foundation/config/environment.js';
import { listWeakSettings, type WeakSetting } from '../../foundation/config/weak-settings.js';

class WeakSettingResponse implements WeakSetting {
  @ApiProperty({ example: 'BCRYPT_COST' }) variable!: string;
  @ApiProperty({ description: 'what is weak, and what to do', example: 'set at least 10' }) detail!: string;
}

class ConfigurationReviewResponse {
  @ApiProperty({ type: [WeakSettingResponse], description: 'empty outside of production' })
  weak_settings!: WeakSetting[];

  @ApiProperty({ ...NULLABLE_MOMENT, description: 'since when this ADMIN_API_KEY is in use; null without one' })
  root_key_first_seen_at!: string | null;
}

@AdminController('/configuration-review')
export class ConfigurationReviewAdminController {
  constructor(
    private readonly environment: Environment,
    private readonly rootKey: RootKey,
  ) {}

  @Get()
  @RequireAdmin('read', {
    summary: 'Which settings of this replica are weak, and how old is the root key?',
    description: 'Shows no value of a variable.',
    returns: ConfigurationReviewResponse,
  })
  async reviewConfiguration(): Promise<ConfigurationReviewResponse> {
    const firstSeen = await this.rootKey.readFirstSeen();
    return {
      weak_settings: listWeakSettings(this.environment),
      root_key_first_seen_at: firstSeen?.toISOString() ?? null,
    };
  }
}
