import { Module } from '@nestjs/common';
import { BreachedPasswords } from './breached-passwords.js';
import { NewPasswords } from './new-passwords.js';
import { PasswordHasher } from './password-hasher.js';
import { PasswordVerifier } from './password-verifier.js';

@Module({
  providers: [PasswordHasher, BreachedPasswords, NewPasswords, PasswordVerifier],
  exports: [NewPasswords, PasswordVerifier],
})
export class PasswordsModule {}
