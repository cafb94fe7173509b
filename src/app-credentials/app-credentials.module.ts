import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { KeysModule } from '../keys/keys.module.js';
import { provideKeyStore } from '../keys/provide-key-store.js';
import { APP_KEY_TABLE, APP_KEYS, AppCredential, AppCredentialsService } from './app-credentials.service.js';
import { AppStrategy, ValidateAppController } from './app-door.js';

@Module({
  imports: [AccessModule, AuditModule, KeysModule, TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_TABLE), AppCredentialsService, AppStrategy],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
