import { Body, Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiBody, ApiOkResponse, ApiOperation, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { refusal } from '../access/doors.js';
import { principalOf } from '../access/principals.js';
import { RequireApp } from '../access/require.js';
import { ServiceNameField } from '../common/fields.js';

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
  @Post('validate-app')
  @HttpCode(200)
  @RequireApp()
  @ApiOperation({
    summary: 'Is this service who it says it is?',
    description:
      'Forward the headers that a service sent you, and name yourself as target: a key for another service is refused.',
  })
  @ApiBody({ type: ValidateAppRequest, required: false })
  @ApiOkResponse({ type: ValidAppResponse })
  validate(@Req() request: Request, @Body() { target }: ValidateAppRequest): ValidAppResponse {
    const app = principalOf(request, 'app');
    if (target !== undefined && target !== app.target) {
      throw refusal('app', 'other_target', {
        app_id: app.appId,
        calling_service: app.caller,
        called_service: app.target,
      });
    }
    return { valid: true, app_id: app.appId, caller: app.caller, target: app.target };
  }
}
