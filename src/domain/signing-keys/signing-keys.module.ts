/**
 * The keys that sign access tokens under ES256. signing-key-rotation.ts has their states and lifetimes, api/well-known/
 * the JWKS. Invariants: when the call that revoked a key has answered, no replica accepts its tokens; private keys
 * leave a process only in encrypted form.
 */
import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { SigningKeyRotation, SigningKeyVault } from './signing-key-rotation.js';
import { SigningKey } from './signing-key.entity.js';
import { SigningKeysService } from './signing-keys.service.js';

@Module({
  imports: [TypeOrmModule.forFeature([SigningKey])],
  providers: [SigningKeyVault, SigningKeyRotation, SigningKeysService],
  exports: [SigningKeyRotation, SigningKeysService],
})
export class SigningKeysModule {}
