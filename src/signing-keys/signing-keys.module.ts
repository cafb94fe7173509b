// The keys that sign access tokens under ES256, and the JWKS that shows them. States: next, active, retired, revoked
// (signing-key.entity.ts). Invariants: a key is shown for longer than the JWKS may be cached before it signs, and as long
// as its tokens live after it; when the call that revoked a key has answered, no replica accepts its tokens; private keys
// leave a process only encrypted (key-vault.ts). Replicas agree through the database (docs/decisions/0046).

import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { RevocationModule } from '../revocation/revocation.module.js';
import { JwksController } from './jwks.controller.js';
import { KeyRotation } from './key-rotation.js';
import { KeyVault } from './key-vault.js';
import { SigningKey } from './signing-key.entity.js';
import { SigningKeysService } from './signing-keys.service.js';

@Module({
  imports: [RevocationModule, TypeOrmModule.forFeature([SigningKey])],
  controllers: [JwksController],
  providers: [KeyVault, KeyRotation, SigningKeysService],
  exports: [KeyRotation, SigningKeysService],
})
export class SigningKeysModule {}
