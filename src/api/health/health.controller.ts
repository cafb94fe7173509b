// Health checks for load balancers and orchestrators: `/health` (ready to serve), `/health/ready` (ready to serve, or to answer
// from the cache in an outage of PostgreSQL) and `/health/live` (the process runs). A replica is ready while PostgreSQL can be
// used, its clock is right and no stop has begun; an outage of the logging service only degrades it. The metric `database_up`
// has the same verdict on PostgreSQL.

import { Controller, Get, Res } from '@nestjs/common';
import {
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiServiceUnavailableResponse,
  ApiTags,
} from '@nestjs/swagger';
import { HealthCheckService, HealthIndicatorService, type HealthCheckResult } from '@nestjs/terminus';
import type { Response } from 'express';
import { Answers, Public } from '../../foundation/access/route-decorators.js';
import { ComparedClock } from '../../foundation/database/compared-clock.js';
import { Log } from '../../foundation/logging/log.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { RevocationLease } from '../../../packages/lease/src/lease.js';
import { HealthProbe, Readiness } from './health-probe.js';

const UNREADY: ReadonlySet<string> = new Set(['error', 'shutting_down']);

const INDICATORS = { type: 'object', additionalProperties: { type: 'object', additionalProperties: true } } as const;

class HealthResponse {
  @ApiProperty({ enum: ['ok', 'degraded', 'error', 'shutting_down'], enumName: 'HealthStatus', example: 'ok' })
  status!: string;
  @ApiPropertyOptional({ ...INDICATORS, example: { database: { status: 'up' } } }) info?: object;
  @ApiPropertyOptional({ ...INDICATORS, example: {} }) error?: object;
  @ApiProperty({ ...INDICATORS, example: { database: { status: 'up' } } }) details!: object;
}

class LiveResponse {
  @ApiProperty({ enum: ['ok'] }) status!: 'ok';
}

@ApiTags('health')
@Controller('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly probe: HealthProbe,
    private readonly readiness: Readiness,
    private readonly lease: RevocationLease,
    private readonly clock: ComparedClock,
    private readonly log: Log,
  ) {}

  @Get()
  @ApiOperation({
    summary: 'Ready to serve?',
    description: 'An outage of the logging service is shown, and does not cause a 503.',
  })
  @Answers(200, HealthResponse)
  @ApiServiceUnavailableResponse({
    type: HealthResponse,
    description: 'The database cannot be used, the clock of the replica is wrong, or the service is stopping',
  })
  // Stands below the 503, because decorators apply from the bottom up and @Public() would replace it.
  @Public()
  async checkReadiness(@Res({ passthrough: true }) response: Response): Promise<HealthCheckResult> {
    const result = await this.checkIndicators(false);
    if (UNREADY.has(result.status))
      response.status(503).setHeader('Retry-After', String(problems.unavailable.retryAfterSeconds));
    return result;
  }

  @Get('ready')
  @Public({
    summary: 'Ready to serve, or to answer from the cache?',
    description:
      'As /health, but an outage of the database causes a 503 only when `OUTAGE_GRACE_SECONDS` is over. Until then the ' +
      'replica accepts cached app and node keys, and answers 503 to everything else.',
    returns: HealthResponse,
  })
  async checkCacheReadiness(): Promise<HealthCheckResult> {
    const result = await this.checkIndicators(true);
    if (UNREADY.has(result.status)) throw new ProblemException(problems.unavailable, { isLogged: false });
    return result;
  }

  @Get('live')
  @Public({ summary: 'Alive?', description: 'Answers as long as the process runs.', returns: LiveResponse })
  checkLiveness(): LiveResponse {
    return { status: 'ok' };
  }

  private async checkIndicators(countsCache: boolean): Promise<HealthCheckResult> {
    try {
      return await this.health.check([
        async () => {
          const database = this.indicators.check('database');
          if (await this.probe.isUsable()) return database.up();
          if (countsCache && this.lease.isHeld) return database.degraded('cannot be used: cached keys are accepted');
          return database.down('cannot be used');
        },
        () => {
          const clock = this.indicators.check('clock');
          const skew = Math.round(this.clock.skewSeconds ?? 0);
          return this.clock.isWrong ? clock.down(`${skew} s ahead of the clock of the database`) : clock.up();
        },
        () => {
          const logging = this.indicators.check('logging_service');
          if (this.log.isDelivering === undefined)
            return logging.up({ message: 'not configured: lines go to the console' });
          return this.log.isDelivering ? logging.up() : logging.degraded('cannot be used: lines go to the console');
        },
        () => {
          const service = this.indicators.check('service');
          return this.readiness.isDraining ? service.down('shutting down') : service.up();
        },
      ]);
    } catch (error) {
      // Terminus throws its report when something is down.
      if (error instanceof Error && 'getResponse' in error)
        return (error as { getResponse(): HealthCheckResult }).getResponse();
      throw error;
    }
  }
}
