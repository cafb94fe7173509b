// Passwords of users: hashing and comparing (password-hasher.ts), the forms that imports bring (foreign-hash.ts), which new
// passwords are accepted (new-passwords.ts), and verifying the password of an account (password-verifier.ts). The users
// themselves are in users/.

import { Module } from '@nestjs/common';
import { NewPasswords } from './new-passwords.js';
import { PasswordHasher } from './password-hasher.js';
import { PasswordVerifier } from './password-verifier.js';

@Module({ providers: [PasswordHasher, NewPasswords, PasswordVerifier], exports: [NewPasswords, PasswordVerifier] })
export class PasswordsModule {}
