import { Injectable, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA } from '@nestjs/common/constants.js';
import { MetadataScanner, ModuleRef } from '@nestjs/core';
import type { Request } from 'express';
import { toActor } from '../foundation/access/actor.js';
import type { AdminPrincipal } from '../foundation/access/principals.js';
import { readDeclaration } from '../foundation/access/route-declarations.js';
import { listValidatedParameters } from '../foundation/access/route-table.js';
import { createValidationPipe } from '../foundation/http/validation.js';
import { Names, type Suggestions } from './names.js';
import { AdminDoor, hasScope } from '../api/admin/admin.door.js';
import { ADMIN_CONTROLLERS } from '../api/admin/admin.module.js';

/**
 * A route of the operators' API as a page calls it: it asks for the scope, validates the body and the query, and runs
 * the handler.
 */
export interface AdminRoute<Values extends unknown[], Answer> {
  /** @throws {ProblemException} missing_scope; validation_failed; and what the handler throws */
  (...values: Values): Promise<Answer>;
  /** Whether the operator has a scope that the route accepts. */
  readonly isAllowed: boolean;
  /** To be called before a form of the route is shown. @throws {ProblemException} missing_scope, which is counted */
  readonly requireScope: () => Promise<void>;
}

/** A body or a query before its validation. */
export type Unvalidated = Readonly<Record<string, unknown>>;

type Handler = (...values: never[]) => Promise<unknown>;
/** Replaces each DTO of a handler by its unvalidated fields. */
type Sent<Values> = {
  [Index in keyof Values]: Values[Index] extends string | Request
    ? Values[Index]
    : { readonly [Field in keyof Values[Index]]?: unknown };
};
type RoutesOf<Api> = {
  readonly [Name in keyof Api as Api[Name] extends Handler ? Name : never]: Api[Name] extends Handler
    ? AdminRoute<Sent<Parameters<Api[Name]>>, Awaited<ReturnType<Api[Name]>>>
    : never;
};
export type AdminRoutes = {
  readonly [Name in keyof typeof ADMIN_CONTROLLERS]: RoutesOf<InstanceType<(typeof ADMIN_CONTROLLERS)[Name]>>;
};

/** The operators' API as the console calls it: the scopes and DTOs that a route declares hold here too. */
@Injectable()
export class AdminApi {
  private readonly pipe = createValidationPipe();

  constructor(
    private readonly door: AdminDoor,
    private readonly modules: ModuleRef,
    readonly names: Names,
  ) {}

  /** @returns the routes, for the operator of a request */
  bindTo(request: Request): AdminRoutes {
    const routes = Object.entries(ADMIN_CONTROLLERS).map(([name, controller]) => [
      name,
      this.bindRoutes(request, controller),
    ]);
    return Object.fromEntries(routes) as AdminRoutes;
  }

  /** The services and scopes that live app credentials name; none for an operator who may not read those. */
  async findSuggestions(request: Request): Promise<Suggestions> {
    const { listAppCredentials } = this.bindTo(request).appCredentials;
    return listAppCredentials.isAllowed ? this.names.findSuggestions() : { services: [], scopes: [] };
  }

  private bindRoutes(request: Request, controller: Type<object>): object {
    const prototype = controller.prototype as Readonly<Record<string, Handler>>;
    const names = new MetadataScanner().getAllMethodNames(prototype);
    return Object.fromEntries(
      names.flatMap((name) => {
        const handler = prototype[name] as Handler;
        const { scope, isRead } = readDeclaration(handler);
        if (scope === undefined) return [];
        const declared = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod];
        const method = isRead ? 'GET' : declared;
        const principal = request.user as AdminPrincipal;
        const requireScope = () => this.door.refuseMissingScope(principal, scope, method, () => toActor(request));
        const call = async (...values: unknown[]): Promise<unknown> => {
          await requireScope();
          const validated = await this.validate(controller, name, values);
          return handler.apply(this.modules.get(controller, { strict: false }), validated as never[]);
        };
        return [[name, Object.assign(call, { isAllowed: hasScope(principal, scope, method), requireScope })]];
      }),
    );
  }

  /** Drops fields without a value and empty parameters of a query, which a form always sends. */
  private async validate(controller: Type<object>, name: string, values: unknown[]): Promise<unknown[]> {
    const validated = [...values];
    for (const { index, type, metatype } of listValidatedParameters(controller, name)) {
      const isSent = ([, value]: [string, unknown]) => value !== undefined && (type === 'body' || value !== '');
      const sent = Object.fromEntries(Object.entries(values[index] ?? {}).filter(isSent));
      validated[index] = await this.pipe.transform(sent, { type, metatype });
    }
    return validated;
  }
}
