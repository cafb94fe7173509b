import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { UsersModule } from '../users/users.module.js';
import { Challenges } from './challenges.js';
import { CodeVerifier } from './code-verifier.js';
import { FactorChanges } from './factor-changes.js';
import { FactorRefusals } from './factor-refusals.js';
import { LoginExplanations } from './login-explanations.js';
import { PasskeyVerifier } from './passkey-verifier.js';
import { PasskeysController } from './passkeys.controller.js';
import { PasskeysService } from './passkeys.service.js';
import { RelyingParty } from './relying-party.js';
import { SecondFactorsService } from './second-factors.service.js';
import { TotpController } from './totp.controller.js';
import { TotpService } from './totp.service.js';
import { TotpVault } from './totp-vault.js';

const SHARED = [
  SecondFactorsService,
  LoginExplanations,
  CodeVerifier,
  PasskeyVerifier,
  RelyingParty,
  Challenges,
  TotpVault,
  FactorRefusals,
];

@Module({
  imports: [PasswordsModule, AccessModule, AuditModule, RevocationModule, ThrottlingModule, TokensModule, UsersModule],
  controllers: [TotpController, PasskeysController],
  providers: [...SHARED, FactorChanges, TotpService, PasskeysService],
  exports: SHARED,
})
export class SecondFactorsModule {}
