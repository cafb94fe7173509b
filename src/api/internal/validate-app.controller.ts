import { Post, Req } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import type { Request } from 'express';
import { Freshness } from '../../domain/revocation/freshness.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { InternalController, RequirePresentedApp } from '../../foundation/access/route-decorators.js';
import { ServiceNameField, ID, APP_SCOPES } from '../../foundation/common/fields.js';
import { EXAMPLES } from '../../foundation/common/names.js';

/** Only for the OpenAPI document: the guard reads the body (`readPresentedTarget`). */
class ValidateAppRequest {
  @ServiceNameField(EXAMPLES.target, { optional: true }) target?: string;
}
class ValidAppResponse {
  @ApiProperty({ enum: [true] }) valid!: true;
  @ApiProperty(ID) app_id!: string;
  @ApiProperty({ example: EXAMPLES.caller }) caller!: string;
  @ApiProperty({ example: EXAMPLES.target }) target!: string;
  @ApiPropertyOptional(APP_SCOPES) scopes?: readonly string[];
}

@InternalController()
export class ValidateAppController {
  constructor(private readonly freshness: Freshness) {}

  @Post('validate-app')
  @RequirePresentedApp({
    summary: 'Validate the key of a service',
    description:
      'Forward the headers that a service sent you, and name yourself as target, in the body or in X-Platform-Target: ' +
      'a key for another service is refused. The answer has `scopes` when the credential is restricted to some.',
    optionalBody: ValidateAppRequest,
    returns: ValidAppResponse,
  })
  validateApp(@Req() request: Request): ValidAppResponse {
    const { appId, caller, target, scopes, isPrevious, rememberable } = getPrincipal(request, 'app');
    this.freshness.setHeaders(request, rememberable, isPrevious);
    return { valid: true, app_id: appId, caller, target, ...(scopes && { scopes }) };
  }
}
