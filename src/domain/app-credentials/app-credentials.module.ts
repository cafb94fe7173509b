import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { provideKeyStore } from '../keys/key-store.js';
import { AppCredential } from './app-credential.entity.js';
import { APP_KEY_KIND, APP_KEYS, AppCredentialsService } from './app-credentials.service.js';
import { AppDoor } from './app.door.js';
import { AppStrategy } from './app.strategy.js';

@Module({
  imports: [TypeOrmModule.forFeature([AppCredential])],
  providers: [provideKeyStore(APP_KEYS, AppCredential, APP_KEY_KIND), AppCredentialsService, AppDoor, AppStrategy],
  exports: [AppCredentialsService, AppDoor],
})
export class AppCredentialsModule {}
