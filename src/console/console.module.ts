/**
 * The console: pages of operators under /console. It calls the handlers of the operators' API (admin-api.ts), with
 * their scopes, validation and audit events, and has no rules of its own.
 */
import { readFileSync } from 'node:fs';
import { Get, Module, Param, Res, type DynamicModule } from '@nestjs/common';
import type { Response } from 'express';
import { Public } from '../foundation/access/route-decorators.js';
import { AdminModule } from '../api/admin/admin.module.js';
import { findPackageFile } from '../foundation/common/package-version.js';
import type { Environment } from '../foundation/config/environment.js';
import { ProblemException, problems } from '../foundation/problems/problems.js';
import { AdminApi } from './admin-api.js';
import { AuditPages } from './audit.js';
import { Confirmations } from './confirmations.js';
import { ConsoleController, UnknownPage } from './console-pages.js';
import { ForeignForms } from './foreign-forms.js';
import { LoginPage, LogoutPage } from './login.js';
import { PasskeyPrompts } from './passkey-prompts.js';
import { PasskeyPages } from './passkeys.js';
import { ConsoleSessions } from './console-sessions.js';
import { CREDENTIAL_PAGES } from './credential-pages.js';
import { NavigationCounts } from './navigation-counts.js';
import { OperatorsModule } from '../domain/operators/operators.module.js';
import { StatusModule } from '../domain/status/status.module.js';
import { MapPage } from './map.js';
import { EnrolmentPages } from './enrolment-pages.js';
import { HouseholdPages } from './households.js';
import { DashboardPage } from './dashboard.js';
import { Names } from './names.js';
import { SearchPage } from './search.js';
import { TimeZonePage } from './time-zones.js';
import { UserPages } from './users.js';
import { DiagnosisPage } from './diagnosis.js';

/** The build gathers these files (tools/build-docs.ts), and the first request reads them. */
const TYPES: Readonly<Record<string, string>> = { 'pico.min.css': 'css', 'console.css': 'css', 'console.js': 'js' };

@ConsoleController('console/static')
class ConsoleFiles {
  private readonly files = new Map<string, Buffer>();

  @Get(':name')
  @Public()
  showFile(@Param('name') name: string, @Res() response: Response): void {
    const type = Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (type === undefined) throw new ProblemException(problems.notFound);
    let file = this.files.get(name);
    if (!file) this.files.set(name, (file = readFileSync(findPackageFile(`dist/console/${name}`))));
    response.type(type).send(file);
  }
}

@Module({})
export class ConsoleModule {
  /** When CONSOLE is off, there are no pages, and their addresses are 404. */
  static forRoot({ console }: Environment): DynamicModule {
    if (console === 'off') return { module: ConsoleModule };
    const pages = [
      DashboardPage,
      MapPage,
      ...CREDENTIAL_PAGES,
      UserPages,
      HouseholdPages,
      EnrolmentPages,
      DiagnosisPage,
      AuditPages,
      SearchPage,
      TimeZonePage,
      PasskeyPages,
    ];
    return {
      module: ConsoleModule,
      imports: [AdminModule, OperatorsModule, StatusModule],
      // UnknownPage stands last, because it matches every address below /console.
      controllers: [LoginPage, LogoutPage, ConsoleFiles, ...pages, UnknownPage],
      providers: [AdminApi, Names, Confirmations, ConsoleSessions, ForeignForms, NavigationCounts, PasskeyPrompts],
    };
  }
}
