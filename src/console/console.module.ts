/**
 * The console: pages of operators under /console. It calls the handlers of the operators' API (admin-api.ts), with their
 * scopes, validation and audit events, and has no rules of its own. Nothing here is called by a validation.
 */
import { Module, type DynamicModule } from '@nestjs/common';
import { AdminModule } from '../admin/admin.module.js';
import type { Environment } from '../config/environment.js';
import { AdminApi } from './admin-api.js';
import { AuditPages } from './audit.js';
import { ConsoleSessions } from './console-sessions.js';
import { HomesPages, KeysPages, OperatorsPages } from './credential-pages.js';
import { LoginPage, LogoutPage } from './login.js';
import { MapPage } from './map.js';
import { NowPage } from './now.js';
import { PeoplePages } from './people.js';
import { ConsoleFiles } from './static.js';
import { WhyPage } from './why.js';

@Module({})
export class ConsoleModule {
  /** Without pages where CONSOLE is off: their addresses are 404. */
  static forRoot({ console }: Environment): DynamicModule {
    if (console === 'off') return { module: ConsoleModule };
    const pages = [NowPage, MapPage, KeysPages, HomesPages, PeoplePages, OperatorsPages, WhyPage, AuditPages];
    return {
      module: ConsoleModule,
      imports: [AdminModule],
      controllers: [LoginPage, LogoutPage, ConsoleFiles, ...pages],
      providers: [AdminApi, ConsoleSessions],
    };
  }
}
