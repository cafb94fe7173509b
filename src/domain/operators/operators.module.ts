import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { ChallengesModule } from '../challenges/challenges.module.js';
import { provideKeyStore } from '../keys/key-store.js';
import { WebAuthnModule } from '../webauthn/webauthn.module.js';
import { Operator } from './operator.entity.js';
import { OperatorPasskeys } from './operator-passkeys.service.js';
import { OPERATOR_KEY_KIND, OPERATOR_KEYS, OperatorsService } from './operators.service.js';
import { RootKey } from './root-key.js';

@Module({
  imports: [TypeOrmModule.forFeature([Operator]), ChallengesModule, WebAuthnModule],
  providers: [provideKeyStore(OPERATOR_KEYS, Operator, OPERATOR_KEY_KIND), OperatorPasskeys, OperatorsService, RootKey],
  exports: [OperatorPasskeys, OperatorsService, RootKey],
})
export class OperatorsModule {}
