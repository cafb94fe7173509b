import { Injectable, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { ModuleRef } from '@nestjs/core';
import type { Request } from 'express';
import { SCOPE_OF_ROUTE } from '../access/require.js';
import { AdminStrategy, lacksScope } from '../admin/admin-door.js';
import { AppCredentialsAdminController } from '../admin/app-credentials.admin.controller.js';
import { AuditEventsAdminController } from '../admin/audit-events.admin.controller.js';
import { BackgroundWorkAdminController } from '../admin/background-work.admin.controller.js';
import { ExplanationsAdminController } from '../admin/explanations.admin.controller.js';
import { NodesAdminController } from '../admin/nodes.admin.controller.js';
import { OperatorsAdminController } from '../admin/operators.admin.controller.js';
import { UsersAdminController } from '../admin/users.admin.controller.js';
import type { RouteScope } from '../common/names.js';
import { createValidationPipe } from '../http/validation.js';
import type { ConsoleSession } from './console-sessions.js';

const PARTS = {
  apps: AppCredentialsAdminController,
  nodes: NodesAdminController,
  users: UsersAdminController,
  operators: OperatorsAdminController,
  explanations: ExplanationsAdminController,
  audit: AuditEventsAdminController,
  work: BackgroundWorkAdminController,
} as const;
type Parts = { readonly [Name in keyof typeof PARTS]: InstanceType<(typeof PARTS)[Name]> };
export type Part = keyof Parts;
type Handler = (...values: never[]) => Promise<unknown>;
type UntypedHandler = (...values: unknown[]) => Promise<unknown>;
type HandlerName<Api> = { [Name in keyof Api]: Api[Name] extends Handler ? Name : never }[keyof Api] & string;
type Arguments<Api, Name extends keyof Api> = Api[Name] extends (...values: infer Values) => unknown ? Values : never;
type Answer<Api, Name extends keyof Api> = Api[Name] extends (...values: never[]) => infer Result ? Result : never;

/** The operators' API as the console calls it: the handlers of its routes, with their scopes and validation. */
@Injectable()
export class AdminApi {
  private readonly pipe = createValidationPipe();

  constructor(
    private readonly door: AdminStrategy,
    private readonly modules: ModuleRef,
  ) {}

  /** @throws {ProblemException} missing_scope, as the route does; what the route refuses */
  call<P extends Part, Name extends HandlerName<Parts[P]>>(
    request: Request,
    part: P,
    name: Name,
    ...values: Arguments<Parts[P], Name>
  ): Answer<Parts[P], Name> {
    return this.callNamed(request, part, name, ...values) as Answer<Parts[P], Name>;
  }

  /** As {@link AdminApi.call}, for names that are data. */
  async callNamed(request: Request, part: Part, name: string, ...values: unknown[]): Promise<unknown> {
    const { handler, scope, method } = this.findHandler(part, name);
    await this.door.requireScope(request, request.user as ConsoleSession['principal'], scope, method);
    return handler.apply(this.modules.get(PARTS[part], { strict: false }), values);
  }

  /** Whether a page offers this act to the session. */
  mayCall({ principal: { operator } }: ConsoleSession, part: Part, name: string): boolean {
    const { scope, method } = this.findHandler(part, name);
    return operator === null || !lacksScope(operator, scope, method);
  }

  /** Validates as the route does. Empty parameters of a query count as not sent. @throws {ProblemException} validation_failed */
  async read<Dto extends object>(type: 'body' | 'query', metatype: Type<Dto>, fields: object): Promise<Dto> {
    const sent = Object.entries(fields).filter(([, value]) => value !== undefined && (type === 'body' || value !== ''));
    return (await this.pipe.transform(Object.fromEntries(sent), { type, metatype })) as Dto;
  }

  private findHandler(part: Part, name: string) {
    const prototype = PARTS[part].prototype as unknown as Readonly<Record<string, UntypedHandler | undefined>>;
    const handler = prototype[name];
    const scope = handler && (Reflect.getMetadata(SCOPE_OF_ROUTE, handler) as RouteScope | undefined);
    if (handler === undefined || scope === undefined) throw new Error(`${name} is no route of operators`);
    return { handler, scope, method: RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod] };
  }
}
