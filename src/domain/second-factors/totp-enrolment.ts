/**
 * How users enrol, confirm and remove an authenticator app, and replace its recovery codes: routes and acts.
 * Terms: an enrolment begins with the password and shows the secret; its confirmation proves that the app has it. Logins ask
 * for codes from then on. A new enrolment replaces one that was not confirmed, and another password voids it.
 */
import { applyDecorators, Body, Controller, Get, Injectable, Post, Req } from '@nestjs/common';
import { ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import type { EntityManager } from 'typeorm';
import { toOwnCall, type OwnCall, getPrincipal } from '../../foundation/access/actor.js';
import { Answers, RequireUser } from '../../foundation/access/require.js';
import { Clock } from '../../foundation/common/clock.js';
import { CharactersBetween, type Presence } from '../../foundation/common/fields.js';
import type { AuditEventName } from '../../foundation/common/security-events.js';
import { Environment, getProductName } from '../../foundation/config/environment.js';
import { REAUTHENTICATION_PROBLEMS } from '../passwords/password-verifier.js';
import { ApiProblems } from '../../foundation/problems/api-problems.js';
import { ProblemException, problems } from '../../foundation/problems/problems.js';
import { CodeVerifier, replaceRecoveryCodes } from './codes.js';
import { FactorChanges, ProofRequest } from './factor-changes.js';
import { SecondFactorsService, toFactorRefusal, type UserWithFactors } from './second-factors.service.js';
import { drawQrCode, generateTotpSecret, toBase32, toOtpauthUrl, TotpVault } from './totp.js';

/**
 * No row when an enrolment is confirmed. The moment of an enrolment is later than the password that it needed, and not before a
 * proof of the address, whatever the clocks of the replicas say.
 */
const ENROL_TOTP = `INSERT INTO totp_factors AS known (user_id, encrypted_secret, key_mark, created_at)
  SELECT id, $2, $3, GREATEST($4::timestamptz, password_changed_at + interval '1 millisecond', email_verified_at,
    first_proof_at)
  FROM users WHERE id = $1
  ON CONFLICT (user_id) DO UPDATE
    SET encrypted_secret = excluded.encrypted_secret, key_mark = excluded.key_mark, created_at = excluded.created_at
    WHERE known.confirmed_at IS NULL
  RETURNING user_id`;

/** `$4` is the secret that the code was verified with. */
const CONFIRM_TOTP = `UPDATE totp_factors SET confirmed_at = $2, last_step = $3
  WHERE user_id = $1 AND confirmed_at IS NULL AND encrypted_secret = $4 RETURNING user_id`;

const REMOVE_TOTP = 'DELETE FROM totp_factors WHERE user_id = $1';

const MAX_CODE_LENGTH = 64;

/** An optional code needs a rule of its own that says when it is checked. */
export function CodeField(description: string, { optional = false }: Presence = {}): PropertyDecorator {
  const schema = { type: String, minLength: 1, maxLength: MAX_CODE_LENGTH, description, example: '492039' };
  return applyDecorators((optional ? ApiPropertyOptional : ApiProperty)(schema), CharactersBetween(1, MAX_CODE_LENGTH));
}

class ProofWithCodeRequest extends ProofRequest {
  @CodeField('a code of the authenticator app, or a recovery code') code!: string;
}

class ConfirmTotpRequest {
  @CodeField('a code of the authenticator app') code!: string;
}

class TotpEnrolmentResponse {
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
}

class TotpResponse {
  @ApiProperty({ description: 'whether logins ask for a code', example: true }) is_confirmed!: boolean;
  @ApiProperty({ type: 'integer', description: 'unused recovery codes', example: 10 }) recovery_codes_left!: number;

  static from({ confirmedAt, recoveryCodes }: UserWithFactors): TotpResponse {
    return { is_confirmed: confirmedAt !== null, recovery_codes_left: recoveryCodes };
  }
}

class RecoveryCodesResponse {
  @ApiProperty({
    type: [String],
    description: 'each works once, instead of a code of the app; shown once',
    example: ['k3vt-q2ma-7xnd-c5re-w6jh-pz4s'],
  })
  recovery_codes!: string[];
}

@Injectable()
export class TotpService {
  constructor(
    private readonly changes: FactorChanges,
    private readonly factors: SecondFactorsService,
    private readonly codes: CodeVerifier,
    private readonly vault: TotpVault,
    private readonly environment: Environment,
    private readonly clock: Clock,
  ) {}

  async readEnrolment(userId: string): Promise<UserWithFactors> {
    const user = await this.factors.findUser(userId);
    if (!user.encryptedSecret) throw new ProblemException(problems.notFound);
    return user;
  }

  async enrolTotp(call: OwnCall, password: string): Promise<TotpEnrolmentResponse> {
    const user = await this.changes.reauthenticate(call, password);
    const secret = generateTotpSecret();
    const { userId, email } = call.principal;
    const values = [userId, this.vault.encryptSecret(userId, secret), this.vault.keyMark, this.clock.now()];
    await this.changes.commitChange(call, user, async (transaction) => {
      const enrolled = await transaction.query<unknown[]>(ENROL_TOTP, values);
      if (enrolled.length === 0) throw new ProblemException(problems.totpEnrolled);
      return { result: undefined, event: 'user.totp.started', keepsFactors: true };
    });
    const otpauthUrl = toOtpauthUrl(secret, getProductName(this.environment), email);
    return { secret: toBase32(secret), otpauth_url: otpauthUrl, qr_svg: drawQrCode(otpauthUrl) };
  }

  /** Ends the other sessions, if it is the first factor. @returns recovery codes */
  async confirmTotp(call: OwnCall, code: string): Promise<string[]> {
    const { actor } = call;
    const { userId } = call.principal;
    const user = await this.factors.findUser(userId);
    if (user.confirmedAt) return this.changes.refuseRepetition(problems.totpEnrolled);
    const step = await this.factors.answerRefusals(problems.wrongSecondFactor, actor, () =>
      this.codes.verifyEnrolmentCode({ user, code, actor }),
    );
    const confirm = async (transaction: EntityManager) => {
      const values = [userId, this.clock.now(), step, user.encryptedSecret];
      const [confirmed] = await transaction.query<[unknown[], number]>(CONFIRM_TOTP, values);
      // A parallel call has confirmed it.
      if (confirmed.length === 0) throw new ProblemException(problems.totpEnrolled);
      return { result: await replaceRecoveryCodes(transaction, userId), event: 'user.totp.enrolled' } as const;
    };
    const refusal = toFactorRefusal('changed_meanwhile', userId);
    const createVoidError = () => new ProblemException(problems.wrongSecondFactor, { refusal });
    return this.changes.commitChange(call, user, confirm, createVoidError);
  }

  async removeTotp(call: OwnCall, proof: ProofWithCodeRequest): Promise<void> {
    await this.commitWithCode(call, proof, 'user.totp.removed', async (transaction) => {
      await transaction.query(REMOVE_TOTP, [call.principal.userId]);
    });
  }

  async replaceRecoveryCodes(call: OwnCall, proof: ProofWithCodeRequest): Promise<string[]> {
    return this.commitWithCode(call, proof, 'user.recovery_codes.replaced', (transaction) =>
      replaceRecoveryCodes(transaction, call.principal.userId),
    );
  }

  private async commitWithCode<Result>(
    call: OwnCall,
    { password, code }: ProofWithCodeRequest,
    event: AuditEventName,
    change: (transaction: EntityManager) => Promise<Result>,
  ): Promise<Result> {
    const { actor } = call;
    const reauthenticated = await this.changes.reauthenticate(call, password);
    const user = await this.factors.findUser(call.principal.userId);
    return this.factors.answerRefusals(problems.wrongSecondFactor, actor, () =>
      this.codes.acceptAnyCode({ user, code, actor }, (useCode) =>
        this.changes.commitChange(call, reauthenticated, async (transaction) => {
          await useCode(transaction);
          return { result: await change(transaction), event };
        }),
      ),
    );
  }
}

const CODE_PROBLEMS = [
  problems.wrongSecondFactor,
  problems.tooManyRequests,
  problems.hashingBusy,
  problems.totpSecretUnreadable,
];

@ApiTags('users')
@Controller('api/v0/users/me')
export class TotpController {
  constructor(private readonly totp: TotpService) {}

  @Get('totp')
  @RequireUser()
  @ApiProblems(problems.notFound)
  @ApiOperation({ summary: 'Get the state of your authenticator app' })
  @Answers(200, TotpResponse)
  async getTotp(@Req() request: Request): Promise<TotpResponse> {
    return TotpResponse.from(await this.totp.readEnrolment(getPrincipal(request, 'user').userId));
  }

  @Post('totp')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, problems.totpEnrolled)
  @ApiOperation({
    summary: 'Enrol an authenticator app (TOTP)',
    description:
      'Returns the secret as text, as the URI that apps read, and as a QR code. Logins ask for a code once the ' +
      'enrolment is confirmed. A new enrolment, or a change of the password, voids one that was not confirmed.',
  })
  @Answers(201, TotpEnrolmentResponse)
  async enrolTotp(@Req() request: Request, @Body() { password }: ProofRequest): Promise<TotpEnrolmentResponse> {
    const enrolment = await this.totp.enrolTotp(toOwnCall(request), password);
    request.res?.location('/api/v0/users/me/totp');
    return enrolment;
  }

  @Post('totp/confirm')
  @RequireUser()
  @ApiProblems(...CODE_PROBLEMS, problems.totpEnrolled, problems.notFound)
  @ApiOperation({
    summary: 'Confirm the authenticator app with a code',
    description:
      'From now on a login needs a code. Returns ten recovery codes, which are shown once. If it is the first factor, all ' +
      'other sessions end.',
  })
  @Answers(200, RecoveryCodesResponse)
  async confirmTotp(@Req() request: Request, @Body() { code }: ConfirmTotpRequest): Promise<RecoveryCodesResponse> {
    return { recovery_codes: await this.totp.confirmTotp(toOwnCall(request), code) };
  }

  @Post('totp/remove')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, ...CODE_PROBLEMS, problems.notFound)
  @ApiOperation({ summary: 'Remove the authenticator app', description: 'Also voids the recovery codes.' })
  @Answers(204, 'Logins ask for no code any more')
  async removeTotp(@Req() request: Request, @Body() body: ProofWithCodeRequest): Promise<void> {
    await this.totp.removeTotp(toOwnCall(request), body);
  }

  @Post('recovery-codes')
  @RequireUser()
  @ApiProblems(...REAUTHENTICATION_PROBLEMS, ...CODE_PROBLEMS, problems.notFound)
  @ApiOperation({ summary: 'Replace the recovery codes', description: 'The former ones are void.' })
  @Answers(200, RecoveryCodesResponse)
  async replaceRecoveryCodes(@Req() request: Request, @Body() body: ProofWithCodeRequest) {
    return { recovery_codes: await this.totp.replaceRecoveryCodes(toOwnCall(request), body) };
  }
}
