import { Module } from '@nestjs/common';
import { MailModule } from '../mail/mail-worker.js';
import { PasswordsModule } from '../passwords/password-verifier.js';
import { TokensModule } from '../tokens/user-door.js';
import { Challenges } from './challenges.js';
import { CodeVerifier } from './codes.js';
import { FactorChanges } from './factor-changes.js';
import { PasskeysController, PasskeysService } from './passkeys.js';
import { LoginExplanations, SecondFactorsService } from './second-factors.service.js';
import { TotpController, TotpService } from './totp-enrolment.js';
import { TotpVault } from './totp.js';
import { RelyingParty } from './webauthn.js';

const SHARED = [
  SecondFactorsService,
  LoginExplanations,
  FactorChanges,
  CodeVerifier,
  RelyingParty,
  Challenges,
  TotpVault,
];

@Module({
  imports: [MailModule, PasswordsModule, TokensModule],
  controllers: [TotpController, PasskeysController],
  providers: [...SHARED, TotpService, PasskeysService],
  exports: SHARED,
})
export class SecondFactorsModule {}
