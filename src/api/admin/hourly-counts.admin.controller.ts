import { Get, Query } from '@nestjs/common';
import { ApiProperty } from '@nestjs/swagger';
import { AdminController, RequireAdmin } from '../../foundation/access/route-decorators.js';
import { QueryNumberField } from '../../foundation/common/fields.js';
import { COUNTERS, type Counts } from '../../foundation/common/hourly-counters.js';
import { HourlyCounts, MAX_HOURS, type HourCounts } from '../../domain/status/hourly-counts.js';

const DEFAULT_HOURS = 48;
const describeCounter = (name: keyof Counts, example: number) => ({
  type: 'integer' as const,
  description: COUNTERS[name],
  example,
});

class HourlyCountsQuery {
  @QueryNumberField(MAX_HOURS, { default: DEFAULT_HOURS, description: 'how many hours, the present one included' })
  hours?: number;
}

export class HourCountsResponse implements Counts {
  @ApiProperty({ format: 'date-time', description: 'its beginning', example: '2026-11-26T14:00:00.000Z' })
  hour!: string;

  @ApiProperty(describeCounter('logins', 42)) logins!: number;
  @ApiProperty(describeCounter('failed_logins', 3)) failed_logins!: number;
  @ApiProperty(describeCounter('throttled_guesses', 0)) throttled_guesses!: number;
  @ApiProperty(describeCounter('refused_keys', 1)) refused_keys!: number;
  @ApiProperty(describeCounter('new_sessions', 41)) new_sessions!: number;
  @ApiProperty(describeCounter('validations', 18_250)) validations!: number;

  static from({ hour, ...counts }: HourCounts): HourCountsResponse {
    return { hour: hour.toISOString(), ...counts };
  }
}

class HourlyCountsResponse {
  @ApiProperty({ type: [HourCountsResponse], maxItems: MAX_HOURS }) items!: HourCountsResponse[];
}

@AdminController('/hourly-counts')
export class HourlyCountsAdminController {
  constructor(private readonly counts: HourlyCounts) {}

  @Get()
  @RequireAdmin('read', {
    summary: 'What happened in each hour?',
    description:
      'Logins, failed logins, throttled guesses, refused keys, new sessions and validations of all replicas, the present ' +
      'hour last. Kept for 35 days. The other replicas add what they count within a minute.',
    returns: HourlyCountsResponse,
  })
  async listHourlyCounts(@Query() { hours = DEFAULT_HOURS }: HourlyCountsQuery): Promise<HourlyCountsResponse> {
    return { items: (await this.counts.listHours(hours)).map((each) => HourCountsResponse.from(each)) };
  }
}
