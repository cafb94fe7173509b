import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { CryptoModule } from '../crypto/crypto.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { MailModule } from '../mail/mail.module.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { OneTimeTokens } from './one-time-tokens.js';
import { OwnAccount } from './own-account.js';
import { PasswordPolicy } from './password-policy.js';
import { PasswordProof } from './password-proof.js';
import { PasswordVerifier } from './password-verifier.js';
import { User } from './user.entity.js';
import { UsersController } from './users.controller.js';
import { UsersService } from './users.service.js';

@Module({
  imports: [
    AccessModule,
    AuditModule,
    CryptoModule,
    RevocationModule,
    MailModule,
    ThrottlingModule,
    TypeOrmModule.forFeature([User]),
  ],
  controllers: [UsersController],
  providers: [UsersService, PasswordVerifier, PasswordPolicy, PasswordProof, OwnAccount, OneTimeTokens],
  exports: [UsersService, PasswordVerifier, PasswordPolicy, PasswordProof, OwnAccount, OneTimeTokens],
})
export class UsersModule {}
