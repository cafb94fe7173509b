import { Module } from '@nestjs/common';
import { AccessModule } from '../access/doors.js';
import { AuditModule } from '../audit/audit.module.js';
import { RevocationModule } from '../revocation/revocation.module.js';
import { TypeOrmModule } from '@nestjs/typeorm';
import { provideKeyStore } from '../keys/key-store.js';
import { AppCredential } from './app-credential.entity.js';
import { APP_KEY_TABLE, APP_KEYS, AppCredentialsService } from './app-credentials.service.js';
import { AppStrategy } from './app.strategy.js';
import { ValidateAppController } from './validate-app.controller.js';

@Module({
  imports: [AccessModule, AuditModule, RevocationModule, TypeOrmModule.forFeature([AppCredential])],
  controllers: [ValidateAppController],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_TABLE), AppCredentialsService, AppStrategy],
  exports: [AppCredentialsService],
})
export class AppCredentialsModule {}
