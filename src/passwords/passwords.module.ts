// Passwords of users: hashing and comparing (password-hasher.ts), the forms that imports bring (foreign-hash.ts), which new
// passwords are accepted (password-policy.ts), and verifying the password of an account (password-verifier.ts). The users
// themselves are in users/.

import { Module } from '@nestjs/common';
import { AuditModule } from '../audit/audit.module.js';
import { MetricsRegistryModule } from '../metrics/metrics-registry.js';
import { ThrottlingModule } from '../throttling/throttling.module.js';
import { PasswordHasher } from './password-hasher.js';
import { PasswordPolicy } from './password-policy.js';
import { PasswordVerifier } from './password-verifier.js';

@Module({
  imports: [AuditModule, MetricsRegistryModule, ThrottlingModule],
  providers: [PasswordHasher, PasswordPolicy, PasswordVerifier],
  exports: [PasswordHasher, PasswordPolicy, PasswordVerifier],
})
export class PasswordsModule {}
