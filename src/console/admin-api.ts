import { Injectable, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { ModuleRef } from '@nestjs/core';
import type { Request } from 'express';
import { readDeclaration } from '../foundation/access/route-declarations.js';
import { toActor } from '../foundation/access/actor.js';
import { AdminDoor, lacksScope } from '../api/admin/admin.door.js';
import { createValidationPipe } from '../foundation/http/validation.js';
import type { ConsoleSession } from './console-sessions.js';

/** A controller of the operators' API. */
export type Controller = Type<object>;
type Handler = (...values: never[]) => Promise<unknown>;
type HandlerOf<Api, Name extends keyof Api> = Extract<Api[Name], Handler>;

/** The operators' API as the console calls it: the handlers of its routes, with their scopes and validation. */
@Injectable()
export class AdminApi {
  private readonly pipe = createValidationPipe();

  constructor(
    private readonly door: AdminDoor,
    private readonly modules: ModuleRef,
  ) {}

  /** @throws {ProblemException} missing_scope, as the route does; what the route refuses */
  call<Api extends object, Name extends keyof Api & string>(
    request: Request,
    controller: Type<Api>,
    name: Name,
    ...values: Parameters<HandlerOf<Api, Name>>
  ): ReturnType<HandlerOf<Api, Name>> {
    return this.callNamed(request, controller, name, ...values) as ReturnType<HandlerOf<Api, Name>>;
  }

  /** As {@link AdminApi.call}, for names that are data. */
  async callNamed(request: Request, controller: Controller, name: string, ...values: unknown[]): Promise<unknown> {
    const { handler, scope, method } = findHandler(controller, name);
    const principal = request.user as ConsoleSession['principal'];
    await this.door.requireScope(principal, scope, method, () => toActor(request));
    return handler.apply(this.modules.get(controller, { strict: false }), values as never[]);
  }

  /** Whether a page offers this act to the session. */
  mayCall({ principal: { operator } }: ConsoleSession, controller: Controller, name: string): boolean {
    const { scope, method } = findHandler(controller, name);
    return operator === null || !lacksScope(operator, scope, method);
  }

  /** Validates as the route does. Empty parameters of a query count as not sent. @throws {ProblemException} validation_failed */
  async read<Dto extends object>(type: 'body' | 'query', metatype: Type<Dto>, fields: object): Promise<Dto> {
    const sent = Object.entries(fields).filter(([, value]) => value !== undefined && (type === 'body' || value !== ''));
    return (await this.pipe.transform(Object.fromEntries(sent), { type, metatype })) as Dto;
  }
}

function findHandler(controller: Controller, name: string) {
  const handler = (controller.prototype as Readonly<Record<string, Handler | undefined>>)[name];
  const scope = handler && readDeclaration(handler).scope;
  if (handler === undefined || scope === undefined) throw new Error(`${name} is no route of operators`);
  return { handler, scope, method: RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod] };
}
