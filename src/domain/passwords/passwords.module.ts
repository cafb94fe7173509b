import { Module } from '@nestjs/common';
import { Environment } from '../../foundation/config/environment.js';
import { BreachedPasswords } from './breached-passwords.js';
import { HashingThreads } from './hashing-threads.js';
import { NewPasswords } from './new-passwords.js';
import { PasswordHasher } from './password-hasher.js';
import { PasswordVerifier } from './password-verifier.js';

@Module({
  providers: [
    PasswordHasher,
    BreachedPasswords,
    NewPasswords,
    PasswordVerifier,
    {
      provide: HashingThreads,
      inject: [Environment],
      useFactory: ({ hashNiceness }: Environment) => new HashingThreads({ niceness: hashNiceness }),
    },
  ],
  exports: [NewPasswords, PasswordVerifier],
})
export class PasswordsModule {}
