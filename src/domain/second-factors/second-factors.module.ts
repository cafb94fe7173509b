import { Module } from '@nestjs/common';
import { ChallengesModule } from '../challenges/challenges.module.js';
import { TokensModule } from '../tokens/tokens.module.js';
import { CodeVerifier } from './codes.js';
import { FactorChanges } from './factor-changes.js';
import { PasskeysService } from './passkeys.service.js';
import { Reauthentication } from './reauthentication.js';
import { LoginExplanations } from './login-explanations.js';
import { SecondFactorsService } from './second-factors.service.js';
import { TotpService } from './totp.service.js';
import { TotpVault } from './totp.js';
import { PasskeyVerifier } from './passkey-verifier.js';
import { MailModule } from '../mail/mail.module.js';
import { PasswordsModule } from '../passwords/passwords.module.js';
import { UsersModule } from '../users/users.module.js';
import { WebAuthnModule } from '../webauthn/webauthn.module.js';

const SERVICES = [
  TotpService,
  PasskeysService,
  SecondFactorsService,
  LoginExplanations,
  Reauthentication,
  FactorChanges,
  CodeVerifier,
  PasskeyVerifier,
  TotpVault,
];

@Module({
  imports: [ChallengesModule, MailModule, PasswordsModule, TokensModule, UsersModule, WebAuthnModule],
  providers: SERVICES,
  exports: [...SERVICES, ChallengesModule, WebAuthnModule],
})
export class SecondFactorsModule {}
