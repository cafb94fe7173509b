import { Injectable, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import type { Request } from 'express';
import { SCOPE_OF_ROUTE } from '../access/require.js';
import { AdminStrategy } from '../admin/admin.module.js';
import { AppCredentialsAdminController } from '../admin/app-credentials.admin.controller.js';
import { AuditEventsAdminController } from '../admin/audit-events.admin.controller.js';
import { ExplanationsAdminController } from '../admin/explanations.admin.controller.js';
import { NodesAdminController } from '../admin/nodes.admin.controller.js';
import { OperatorsAdminController } from '../admin/operators.admin.controller.js';
import { UsersAdminController } from '../admin/users.admin.controller.js';
import { listAcceptedScopes, type Scope } from '../common/names.js';
import { createValidationPipe } from '../http/validation.js';
import type { ConsoleSession } from './console-sessions.js';

type Handler = (...values: never[]) => Promise<unknown>;
type HandlerName<Api> = { [Name in keyof Api]: Api[Name] extends Handler ? Name : never }[keyof Api] & string;
type Arguments<Api, Name extends keyof Api> = Api[Name] extends (...values: infer Values) => unknown ? Values : never;
type Answer<Api, Name extends keyof Api> = Api[Name] extends (...values: never[]) => Promise<infer Result>
  ? Result
  : never;

interface Rights {
  readonly scope: Scope;
  readonly method: string;
}

/** The operators' API as the console calls it: the handlers of its routes, with their scopes and validation. */
@Injectable()
export class AdminApi {
  private readonly pipe = createValidationPipe();

  constructor(
    private readonly door: AdminStrategy,
    readonly apps: AppCredentialsAdminController,
    readonly nodes: NodesAdminController,
    readonly users: UsersAdminController,
    readonly operators: OperatorsAdminController,
    readonly explanations: ExplanationsAdminController,
    readonly audit: AuditEventsAdminController,
  ) {}

  /** @throws {ProblemException} missing_scope, as the route does; what the route refuses */
  async call<Api extends object, Name extends HandlerName<Api>>(
    request: Request,
    api: Api,
    name: Name,
    ...values: Arguments<Api, Name>
  ): Promise<Answer<Api, Name>> {
    const { scope, method } = readRights(api, name);
    await this.door.requireScope(request, request.user as ConsoleSession['principal'], scope, method);
    const handler = api[name] as (...given: unknown[]) => Promise<Answer<Api, Name>>;
    return handler.apply(api, values);
  }

  /** Whether a page offers this act to the session. */
  mayCall<Api extends object>({ principal }: ConsoleSession, api: Api, name: HandlerName<Api>): boolean {
    const { scope, method } = readRights(api, name);
    const { operator } = principal;
    return operator === null || listAcceptedScopes(scope, method).some((each) => operator.scopes.includes(each));
  }

  /** Validates as the route does. Empty fields of a form count as not sent. @throws {ProblemException} validation_failed */
  async read<Dto extends object>(type: 'body' | 'query', metatype: Type<Dto>, fields: object): Promise<Dto> {
    const sent = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== ''));
    return (await this.pipe.transform(sent, { type, metatype })) as Dto;
  }
}

function readRights<Api extends object>(api: Api, name: HandlerName<Api>): Rights {
  const handler = api[name] as object;
  const scope = Reflect.getMetadata(SCOPE_OF_ROUTE, handler) as Scope | undefined;
  const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
  if (scope === undefined || method === undefined) throw new Error(`${name} is no route of operators`);
  return { scope, method: RequestMethod[method] };
}
