import { Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiBody, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../access/freshness.js';
import { getPrincipal } from '../access/principals.js';
import { RequirePresentedApp } from '../access/require.js';
import { ServiceNameField } from '../common/fields.js';

/** For the OpenAPI document only: the guard reads the body (`readPresentedTarget`). */
export class ValidateAppRequest {
  @ServiceNameField('speech-to-text', true)
  target?: string;
}

export class ValidAppResponse {
  @ApiProperty({ enum: [true] })
  valid!: true;

  @ApiProperty({ type: String, format: 'uuid', example: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11' })
  app_id!: string;

  @ApiProperty({ example: 'command-orchestration' })
  caller!: string;

  @ApiProperty({ example: 'speech-to-text' })
  target!: string;
}

@ApiTags('internal')
@Controller('internal')
export class ValidateAppController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-app')
  @HttpCode(200)
  @RequirePresentedApp()
  @ApiOperation({
    summary: 'Validate the key of a service',
    description:
      'Forward the headers that a service sent you, and name yourself as target, in the body or in X-Platform-Target: ' +
      'a key for another service is refused.',
  })
  @ApiBody({ type: ValidateAppRequest, required: false })
  @ApiOkResponse({ type: ValidAppResponse })
  validate(@Req() request: Request): ValidAppResponse {
    const { appId, caller, target, rememberable } = getPrincipal(request, 'app');
    this.freshness.describe(request, rememberable);
    return { valid: true, app_id: appId, caller, target };
  }
}
