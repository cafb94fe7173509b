// Password hashes and generated secrets. Passwords have little entropy and get bcrypt, in threads behind a bounded
// queue; generated secrets have 256 bits and get one SHA-256. Secrets and digests are compared in constant time.

import { Module } from '@nestjs/common';
import { PasswordHasher } from './password-hasher.js';

@Module({ providers: [PasswordHasher], exports: [PasswordHasher] })
export class CryptoModule {}
