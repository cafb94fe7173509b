import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation-feed.js';
import { provideKeyStore } from '../keys/key-store.js';
import { APP_KEY_TABLE, APP_KEYS, AppCredential, AppCredentialsService } from './app-credentials.service.js';
import { AppStrategy, ValidateAppController } from './app-door.js';

@Module({
  imports: [AccessModule, AuditModule, RevocationModule, TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_TABLE), AppCredentialsService, AppStrategy],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
