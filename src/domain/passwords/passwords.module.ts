import { Module } from '@nestjs/common';
import { NewPasswords } from './new-passwords.js';
import { PasswordHasher } from './password-hasher.js';
import { PasswordVerifier } from './password-verifier.js';

@Module({ providers: [PasswordHasher, NewPasswords, PasswordVerifier], exports: [NewPasswords, PasswordVerifier] })
export class PasswordsModule {}
