import { Global, Module } from '@nestjs/common';
import { KeyStores } from './key-stores.js';

@Global()
@Module({ providers: [KeyStores], exports: [KeyStores] })
export class KeysModule {}
