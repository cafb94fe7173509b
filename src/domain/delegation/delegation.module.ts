import { Module } from '@nestjs/common';
import { TokensModule } from '../tokens/tokens.module.js';
import { DelegatedDoor } from './delegated.door.js';
import { PairsForUsers } from './pairs-for-users.js';
import { TokenExchangeService } from './token-exchange.service.js';

@Module({
  imports: [TokensModule],
  providers: [DelegatedDoor, PairsForUsers, TokenExchangeService],
  exports: [DelegatedDoor, TokenExchangeService],
})
export class DelegationModule {}
