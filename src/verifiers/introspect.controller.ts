import { Controller, HttpCode, Post, Req } from '@nestjs/common';
import { ApiBody, ApiConsumes, ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { RequireWith } from '../access/require.js';
import { ActiveTokenResponse, IntrospectionBody } from './introspect.dto.js';
import { IntrospectGuard } from './introspect.guard.js';
import { IntrospectionService, type Introspection } from './introspection.service.js';

@ApiTags('internal')
@Controller('internal')
export class IntrospectController {
  constructor(private readonly introspection: IntrospectionService) {}

  @Post('introspect')
  @HttpCode(200)
  @RequireWith(IntrospectGuard, 'app')
  @ApiOperation({
    summary: 'Introspect an access token (RFC 7662)',
    description:
      'For software that speaks OAuth 2.0. The app credential for this service is sent in its headers, or as HTTP Basic ' +
      '(`app_id:app_key`). The one verdict that is a 200: `active` is false for every other token, refresh tokens too.',
  })
  @ApiConsumes('application/x-www-form-urlencoded')
  @ApiBody({ type: IntrospectionBody })
  @ApiOkResponse({ type: ActiveTokenResponse, description: 'Or `{"active": false}`' })
  async introspectToken(@Req() request: Request): Promise<Introspection> {
    return this.introspection.introspect(request.body as Buffer | undefined);
  }
}
