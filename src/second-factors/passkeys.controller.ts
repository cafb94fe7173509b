import { Body, Controller, Get, HttpCode, Param, Patch, Post, Req, Res } from '@nestjs/common';
import {
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
} from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { getPrincipal } from '../access/principals.js';
import { RequireUser } from '../access/require.js';
import { toActor } from '../access/actor.js';
import { ApiProblems } from '../problems/api-problems.js';
import { problems } from '../problems/problems.js';
import { Throttled } from '../throttling/throttle.js';
import { REAUTHENTICATION_PROBLEMS } from '../passwords/password-verifier.js';
import {
  PasskeyResponse,
  PasskeysResponse,
  ProofRequest,
  RegisterPasskeyRequest,
  RenamePasskeyRequest,
} from './factors.dto.js';
import { PasskeysService } from './passkeys.service.js';
import { PasskeyCreationOptionsResponse } from './webauthn-options.dto.js';

const ID = { name: 'id', format: 'uuid' };

@ApiTags('users')
@Controller('api/v0/users/me/passkeys')
export class PasskeysController {
  constructor(private readonly passkeys: PasskeysService) {}

  @Post('options')
  @HttpCode(200)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, problems.notFound, problems.tooManyPasskeys)
  @ApiOperation({
    summary: 'Get the options to register a passkey',
    description: 'For navigator.credentials.create() of the browser. Valid for 5 minutes, and for one passkey.',
  })
  @ApiOkResponse({ type: PasskeyCreationOptionsResponse })
  async createPasskeyOptions(
    @Req() request: Request,
    @Body() { password }: ProofRequest,
  ): Promise<PasskeyCreationOptionsResponse> {
    return this.passkeys.createOptions(getPrincipal(request, 'user'), password, toActor(request));
  }

  @Post()
  @RequireUser()
  @ApiProblems(problems.notFound, problems.passkeyExists, problems.tooManyPasskeys)
  @ApiOperation({
    summary: 'Register a passkey',
    description:
      'From now on a login with the password needs a second factor, and the passkey alone is enough. If it is the first ' +
      'factor, all other sessions end.',
  })
  @ApiCreatedResponse({ type: PasskeyResponse })
  async registerPasskey(
    @Req() request: Request,
    @Res({ passthrough: true }) response: Response,
    @Body() { name, passkey }: RegisterPasskeyRequest,
  ): Promise<PasskeyResponse> {
    const registered = await this.passkeys.register(getPrincipal(request, 'user'), name, passkey, toActor(request));
    response.location(`/api/v0/users/me/passkeys/${registered.id}`);
    return PasskeyResponse.from(registered);
  }

  @Get()
  @RequireUser()
  @ApiOperation({ summary: 'List your passkeys' })
  @ApiOkResponse({ type: PasskeysResponse })
  async listPasskeys(@Req() request: Request): Promise<PasskeysResponse> {
    return PasskeysResponse.from(await this.passkeys.list(getPrincipal(request, 'user').userId));
  }

  @Patch(':id')
  // Above the door, so that only authenticated callers are counted. A renaming needs no password, and adds an audit event.
  @Throttled('second-factor-address')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiParam(ID)
  @ApiOperation({ summary: 'Rename a passkey' })
  @ApiOkResponse({ type: PasskeyResponse })
  async renamePasskey(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { name }: RenamePasskeyRequest,
  ): Promise<PasskeyResponse> {
    const { userId } = getPrincipal(request, 'user');
    return PasskeyResponse.from(await this.passkeys.rename(userId, id, name, toActor(request)));
  }

  @Post(':id/remove')
  @HttpCode(204)
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, problems.notFound)
  @ApiParam(ID)
  @ApiOperation({ summary: 'Remove a passkey' })
  @ApiNoContentResponse({ description: 'The passkey is refused from now on' })
  async removePasskey(
    @Req() request: Request,
    @Param('id') id: string,
    @Body() { password }: ProofRequest,
  ): Promise<void> {
    await this.passkeys.remove(getPrincipal(request, 'user'), id, password, toActor(request));
  }
}
