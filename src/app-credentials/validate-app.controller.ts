import { Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiBody, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../revocation/freshness.js';
import { getPrincipal } from '../access/principals.js';
import { RequirePresentedApp } from '../access/require.js';
import { EXAMPLES } from '../common/examples.js';
import { ServiceNameField } from '../common/fields.js';

/** For the OpenAPI document only: the guard reads the body (`readPresentedTarget`). */
export class ValidateAppRequest {
  @ServiceNameField(EXAMPLES.target, { optional: true })
  target?: string;
}

export class ValidAppResponse {
  @ApiProperty({ enum: [true] })
  valid!: true;

  @ApiProperty({ type: String, format: 'uuid', example: EXAMPLES.id })
  app_id!: string;

  @ApiProperty({ example: EXAMPLES.caller })
  caller!: string;

  @ApiProperty({ example: EXAMPLES.target })
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
  validateApp(@Req() request: Request): ValidAppResponse {
    const { appId, caller, target, rememberable } = getPrincipal(request, 'app');
    this.freshness.setHeaders(request, rememberable);
    return { valid: true, app_id: appId, caller, target };
  }
}
