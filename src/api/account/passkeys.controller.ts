import { Body, Controller, Get, Param, Patch, Post, Req } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toOwnCall } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { HasListBelow, ID, LabelField, MOMENT } from '../../foundation/common/fields.js';
import { problems } from '../../foundation/problems/problems.js';
import { Throttled } from '../../foundation/throttling/throttle.js';
import { REAUTHENTICATION_PROBLEMS } from '../../domain/second-factors/reauthentication.js';
import type { Passkey } from '../../domain/webauthn/passkey-rows.js';
import { MAX_TRANSPORTS, PasskeyCreationOptionsResponse, PasskeyField } from '../../domain/webauthn/relying-party.js';
import { ProofRequest } from './second-factor.dto.js';
import { PasskeysService } from '../../domain/second-factors/passkeys.service.js';

class RenamePasskeyRequest {
  @LabelField('phone') name!: string;
}

class RegisterPasskeyRequest extends RenamePasskeyRequest {
  @PasskeyField() @HasListBelow('/response/transports', MAX_TRANSPORTS) passkey!: object;
}

class PasskeyResponse {
  @ApiProperty(ID) id!: string;
  @ApiProperty({ example: 'phone' }) name!: string;

  @ApiProperty({ description: 'whether the authenticator may copy it to other devices', example: true })
  is_synced!: boolean;

  @ApiProperty(MOMENT) created_at!: string;

  @ApiProperty({ ...MOMENT, nullable: true, description: 'the last login with it', example: null })
  last_used_at!: string | null;

  static from({ id, name, isSynced, createdAt, lastUsedAt }: Passkey): PasskeyResponse {
    const last_used_at = lastUsedAt?.toISOString() ?? null;
    return { id, name, is_synced: isSynced, created_at: createdAt.toISOString(), last_used_at };
  }
}

export class PasskeysResponse {
  @ApiProperty({ type: [PasskeyResponse], description: 'oldest first; at most 20' }) items!: PasskeyResponse[];

  static from(passkeys: readonly Passkey[]): PasskeysResponse {
    return { items: passkeys.map((passkey) => PasskeyResponse.from(passkey)) };
  }
}

@ApiTags('users')
@Controller('api/v0/users/me/passkeys')
export class PasskeysController {
  constructor(private readonly passkeys: PasskeysService) {}

  @Post('options')
  @RequireUser({
    summary: 'Get the options to register a passkey',
    description:
      'For navigator.credentials.create() of the browser. Valid for 5 minutes, for one passkey, and until the password ' +
      'or the second factors change.',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.notFound, problems.tooManyPasskeys],
    returns: PasskeyCreationOptionsResponse,
  })
  async createPasskeyOptions(@Req() request: Request, @Body() body: ProofRequest) {
    return this.passkeys.createPasskeyOptions(toOwnCall(request), body);
  }

  @Post()
  @RequireUser({
    summary: 'Register a passkey',
    description:
      'From now on a login with the password needs a second factor, and the passkey alone is enough. If it is the first ' +
      'factor, all other sessions end.',
    refusals: [problems.notFound, problems.passkeyExists, problems.tooManyPasskeys],
    creates: PasskeyResponse,
  })
  async registerPasskey(@Req() request: Request, @Body() body: RegisterPasskeyRequest): Promise<PasskeyResponse> {
    const { name, passkey: answer } = body;
    const registered = await this.passkeys.registerPasskey(toOwnCall(request), { name, answer });
    request.res?.location(`/api/v0/users/me/passkeys/${registered.id}`);
    return PasskeyResponse.from(registered);
  }

  @Get()
  @RequireUser({ summary: 'List your passkeys', returns: PasskeysResponse })
  async listPasskeys(@Req() request: Request): Promise<PasskeysResponse> {
    return PasskeysResponse.from(await this.passkeys.listPasskeys(getPrincipal(request, 'user').userId));
  }

  @Patch(':id')
  // Renaming needs no password but writes an audit event. The throttle stands above the door, so that it counts only
  // authenticated callers.
  @Throttled('second-factor-address')
  @RequireUser({ summary: 'Rename a passkey', refusals: [problems.notFound], returns: PasskeyResponse })
  async renamePasskey(@Req() request: Request, @Param('id') id: string, @Body() { name }: RenamePasskeyRequest) {
    return PasskeyResponse.from(await this.passkeys.renamePasskey(toOwnCall(request), { id, name }));
  }

  @Post(':id/remove')
  @RequireUser({
    summary: 'Remove a passkey',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.notFound, problems.lastSecondFactor],
    done: 'The passkey is refused from now on',
  })
  async removePasskey(@Req() request: Request, @Param('id') id: string, @Body() body: ProofRequest) {
    await this.passkeys.removePasskey(toOwnCall(request), id, body);
  }
}
