import { Controller, Get, Res } from '@nestjs/common';
import {
  ApiOkResponse,
  ApiOperation,
  ApiProperty,
  ApiPropertyOptional,
  ApiServiceUnavailableResponse,
  ApiTags,
} from '@nestjs/swagger';
import { HealthCheckService, HealthIndicatorService, type HealthCheckResult } from '@nestjs/terminus';
import type { Response } from 'express';
import { Public } from '../access/require.js';
import { problems } from '../problems/problems.js';
import { HealthProbe } from '../database/health-probe.js';
import { Log } from '../logging/log.js';
import { Readiness } from './readiness.js';

const INDICATORS = { type: 'object', additionalProperties: { type: 'object', additionalProperties: true } } as const;

export class HealthResponse {
  @ApiProperty({ enum: ['ok', 'degraded', 'error', 'shutting_down'], example: 'ok' })
  status!: string;

  @ApiPropertyOptional({ ...INDICATORS, example: { database: { status: 'up' } } })
  info?: object;

  @ApiPropertyOptional({ ...INDICATORS, example: {} })
  error?: object;

  @ApiProperty({ ...INDICATORS, example: { database: { status: 'up' } } })
  details!: object;
}

export class LiveResponse {
  @ApiProperty({ enum: ['ok'] })
  status!: 'ok';
}

@ApiTags('health')
@Controller('health')
export class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly indicators: HealthIndicatorService,
    private readonly probe: HealthProbe,
    private readonly readiness: Readiness,
    private readonly log: Log,
  ) {}

  @Get()
  @ApiOperation({
    summary: 'Ready to serve?',
    description: 'An outage of the logging service is shown, and does not cause a 503.',
  })
  @ApiOkResponse({ type: HealthResponse })
  @ApiServiceUnavailableResponse({
    type: HealthResponse,
    description: 'The database cannot be used, or the service is stopping',
  })
  // Decorators apply from the bottom up: above the 503, this one would replace it.
  @Public()
  async checkReadiness(@Res({ passthrough: true }) response: Response): Promise<HealthCheckResult> {
    const result = await this.check();
    if (result.status === 'error' || result.status === 'shutting_down') {
      response.status(503).setHeader('Retry-After', problems.unavailable.retryAfterSeconds);
    }
    return result;
  }

  @Get('live')
  @Public()
  @ApiOperation({ summary: 'Alive?', description: 'Answers as long as the process runs.' })
  @ApiOkResponse({ type: LiveResponse })
  checkLiveness(): LiveResponse {
    return { status: 'ok' };
  }

  private async check(): Promise<HealthCheckResult> {
    try {
      return await this.health.check([() => this.database(), () => this.loggingService(), () => this.service()]);
    } catch (error) {
      // Terminus throws its report when something is down.
      if (error instanceof Error && 'getResponse' in error)
        return (error as { getResponse(): HealthCheckResult }).getResponse();
      throw error;
    }
  }

  private service() {
    const indicator = this.indicators.check('service');
    return this.readiness.isDraining ? indicator.down('shutting down') : indicator.up();
  }

  private async database() {
    const indicator = this.indicators.check('database');
    return (await this.probe.isUsable()) ? indicator.up() : indicator.down('cannot be used');
  }

  private loggingService() {
    const indicator = this.indicators.check('logging_service');
    if (this.log.isDelivering === undefined)
      return indicator.up({ message: 'not configured: lines go to the console' });
    return this.log.isDelivering ? indicator.up() : indicator.degraded('cannot be used: lines go to the console');
  }
}
