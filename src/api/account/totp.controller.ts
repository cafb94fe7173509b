import { Body, Controller, Get, Post, Req } from '@nestjs/common';
import { ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { toOwnCall } from '../../foundation/access/actor.js';
import { getPrincipal } from '../../foundation/access/principals.js';
import { RequireUser } from '../../foundation/access/route-decorators.js';
import { REAUTHENTICATION_PROBLEMS } from '../../domain/second-factors/reauthentication.js';
import { problems, THROTTLE_PROBLEMS } from '../../foundation/problems/problems.js';
import type { UserWithFactors } from '../../domain/second-factors/second-factors.service.js';
import { ProofRequest, CodeField } from './second-factor.dto.js';
import { TotpService, type TotpEnrolment } from '../../domain/second-factors/totp.service.js';

class ConfirmTotpRequest {
  @CodeField('a code of the authenticator app') code!: string;
}

export class TotpEnrolmentResponse {
  @ApiProperty({ description: 'base32; shown once', example: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP' }) secret!: string;

  @ApiProperty({
    description: 'what authenticator apps read',
    example:
      'otpauth://totp/example.org:alice%40example.org?issuer=example.org&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
  })
  otpauth_url!: string;

  @ApiProperty({
    description: 'the same as a QR code, an SVG image',
    example: '<svg xmlns="http://www.w3.org/2000/svg"/>',
  })
  qr_svg!: string;

  static from({ secret, otpauthUrl, qrSvg }: TotpEnrolment): TotpEnrolmentResponse {
    return { secret, otpauth_url: otpauthUrl, qr_svg: qrSvg };
  }
}

class TotpResponse {
  @ApiProperty({ description: 'whether logins ask for a code', example: true }) is_confirmed!: boolean;
  @ApiProperty({ type: 'integer', description: 'unused recovery codes', example: 10 }) recovery_codes_left!: number;

  static from({ confirmedAt, recoveryCodes }: UserWithFactors): TotpResponse {
    return { is_confirmed: confirmedAt !== null, recovery_codes_left: recoveryCodes };
  }
}

export class RecoveryCodesResponse {
  @ApiProperty({
    type: [String],
    description: 'each works once, instead of a code of the app; shown once',
    example: ['k3vt-q2ma-7xnd-c5re-w6jh-pz4s-b7ye-u2fg'],
  })
  recovery_codes!: string[];
}

const CODE_PROBLEMS = [problems.wrongSecondFactor, ...THROTTLE_PROBLEMS, problems.totpSecretUnreadable];

@ApiTags('users')
@Controller('api/v0/users/me')
export class TotpController {
  constructor(private readonly totp: TotpService) {}

  @Get('totp')
  @RequireUser({
    summary: 'Get the state of your authenticator app',
    refusals: [problems.notFound],
    returns: TotpResponse,
  })
  async getTotp(@Req() request: Request): Promise<TotpResponse> {
    return TotpResponse.from(await this.totp.readEnrolment(getPrincipal(request, 'user').userId));
  }

  @Post('totp')
  @RequireUser({
    summary: 'Enrol an authenticator app (TOTP)',
    description:
      'Returns the secret as text, as the URI that apps read, and as a QR code. Logins ask for a code once the ' +
      'enrolment is confirmed. A new enrolment, or a change of the password, voids one that was not confirmed.',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.totpEnrolled],
    creates: TotpEnrolmentResponse,
  })
  async enrolTotp(@Req() request: Request, @Body() body: ProofRequest): Promise<TotpEnrolmentResponse> {
    const enrolment = await this.totp.enrolTotp(toOwnCall(request), body);
    request.res?.location('/api/v0/users/me/totp');
    return TotpEnrolmentResponse.from(enrolment);
  }

  @Post('totp/confirm')
  @RequireUser({
    summary: 'Confirm the authenticator app with a code',
    description:
      'From now on a login needs a code. Returns ten recovery codes, which are shown once. If it is the first factor, all ' +
      'other sessions end.',
    refusals: [...CODE_PROBLEMS, problems.totpEnrolled, problems.notFound],
    returns: RecoveryCodesResponse,
  })
  async confirmTotp(@Req() request: Request, @Body() { code }: ConfirmTotpRequest): Promise<RecoveryCodesResponse> {
    return { recovery_codes: await this.totp.confirmTotp(toOwnCall(request), code) };
  }

  @Post('totp/remove')
  @RequireUser({
    summary: 'Remove the authenticator app',
    description: 'Also voids the recovery codes.',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.notFound, problems.lastSecondFactor],
    done: 'Logins ask for no code any more',
  })
  async removeTotp(@Req() request: Request, @Body() body: ProofRequest): Promise<void> {
    await this.totp.removeTotp(toOwnCall(request), body);
  }

  @Post('recovery-codes')
  @RequireUser({
    summary: 'Replace the recovery codes',
    description: 'The former ones are void.',
    refusals: [...REAUTHENTICATION_PROBLEMS, problems.notFound],
    returns: RecoveryCodesResponse,
  })
  async replaceRecoveryCodes(@Req() request: Request, @Body() body: ProofRequest) {
    return { recovery_codes: await this.totp.replaceRecoveryCodes(toOwnCall(request), body) };
  }
}
