// Password hashes and generated secrets. Passwords have little entropy and get bcrypt, in threads behind a bounded
// queue; generated secrets have 256 bits and get one SHA-256. Secrets and digests are compared in constant time.

import { Global, Module } from '@nestjs/common';
import { PasswordHasher } from './password-hasher.js';

@Global()
@Module({ providers: [PasswordHasher], exports: [PasswordHasher] })
export class CryptoModule {}
