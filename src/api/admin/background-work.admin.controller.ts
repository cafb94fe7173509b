import { Get } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { BackgroundWork, MEASURE_NAMES, type Measurement } from '../../domain/maintenance/background-work.js';

class MeasurementResponse implements Measurement {
  @ApiProperty({ enum: MEASURE_NAMES, enumName: 'MeasureName', description: 'as the metric' }) name!: string;
  @ApiProperty({ type: 'integer', example: 3 }) seconds!: number;
  @ApiProperty({ description: 'whether an operator should look after it', example: false }) is_overdue!: boolean;
}

export class BackgroundWorkResponse {
  @ApiProperty({ type: [MeasurementResponse] }) items!: Measurement[];
}

@AdminController('/background-work')
export class BackgroundWorkAdminController {
  constructor(private readonly work: BackgroundWork) {}

  @Get()
  @RequireAdmin('read', {
    summary: 'How far is the work behind that no request waits for?',
    description: 'Seals of the audit log, mails and the jobs of the maintenance, of all replicas together.',
    returns: BackgroundWorkResponse,
  })
  async getBackgroundWork(): Promise<BackgroundWorkResponse> {
    return { items: await this.work.measureWork() };
  }
}
