// The keys that sign access tokens under ES256, and the JWKS that shows them. States and lifetimes are in signing-key.ts.
// Invariants: when the call that revoked a key has answered, no replica accepts its tokens; private keys leave a process
// only encrypted (signing-key-rotation.ts).

import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { JwksController } from './jwks.controller.js';
import { SigningKeyRotation, SigningKeyVault } from './signing-key-rotation.js';
import { SigningKey } from './signing-key.js';
import { SigningKeysService } from './signing-keys.service.js';

@Module({
  imports: [RevocationModule, TypeOrmModule.forFeature([SigningKey])],
  controllers: [JwksController],
  providers: [SigningKeyVault, SigningKeyRotation, SigningKeysService],
  exports: [SigningKeyRotation, SigningKeysService],
})
export class SigningKeysModule {}
