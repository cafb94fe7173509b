import { Controller, Get } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import { RequireAdmin } from '../access/require.js';
import {
  BackgroundWork,
  listOverdue,
  MEASURE_NAMES,
  type Measure,
  type Measurements,
} from '../maintenance/background-work.js';

const Seconds = (description: string) => ApiProperty({ type: 'integer', description, example: 3 });

export class BackgroundWorkResponse implements Measurements {
  @Seconds('age of the oldest row of the audit log that no seal covers')
  audit_unsealed_seconds!: number;

  @Seconds('how long the oldest mail of the outbox has waited')
  mail_waiting_seconds!: number;

  @Seconds('time since the last purge that succeeded in any replica')
  purge_age_seconds!: number;

  @Seconds('time since the months of the audit log were last maintained')
  audit_maintenance_age_seconds!: number;

  @Seconds('time since signing keys and encrypted secrets were last maintained')
  key_maintenance_age_seconds!: number;

  @ApiProperty({ enum: MEASURE_NAMES, isArray: true, description: 'the work that needs an operator', example: [] })
  overdue!: Measure[];

  static from(measured: Measurements): BackgroundWorkResponse {
    const seconds = MEASURE_NAMES.map((name) => [name, Math.floor(measured[name])] as const);
    return { ...(Object.fromEntries(seconds) as Measurements), overdue: listOverdue(measured) };
  }
}

@ApiTags('admin')
@Controller('api/v0/admin/background-work')
export class BackgroundWorkAdminController {
  constructor(private readonly work: BackgroundWork) {}

  @Get()
  @RequireAdmin('read', {
    summary: 'How far is the work behind that no request waits for?',
    description: 'Seals of the audit log, mails and the jobs of the maintenance, of all replicas together.',
    returns: BackgroundWorkResponse,
  })
  async getBackgroundWork(): Promise<BackgroundWorkResponse> {
    return BackgroundWorkResponse.from(await this.work.measure());
  }
}
