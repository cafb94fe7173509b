// The table of all routes: their declarations, compiled from Nest's metadata at the start, by path and method. The
// guards of foundation/http/ look each request up in it once, and read the rest from the entry.

import { Injectable, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA, PATH_METADATA, ROUTE_ARGS_METADATA } from '@nestjs/common/constants.js';
import { RouteParamtypes } from '@nestjs/common/enums/route-paramtypes.enum.js';
import { MetadataScanner, ModulesContainer } from '@nestjs/core';
import { ARRAY_MAX_SIZE, getMetadataStorage, ValidationTypes } from 'class-validator';
import type { Request } from 'express';
import { readDeclaration, type Audience, type RouteDeclaration } from './route-declarations.js';

export interface Route extends RouteDeclaration {
  readonly name: string;
  readonly method: string;
  /** Pattern as Express writes it: `/api/v0/users/:id`. */
  readonly path: string;
  /** The most items of each list that a JSON body may have, by the list's JSON Pointer. The items are texts. */
  readonly lists: ReadonlyMap<string, number>;
  /** The names of the fields that a JSON body may have. */
  readonly fields: ReadonlySet<string>;
  /** Whether a class validates the query. Services get no other parameter past the head of the request. */
  readonly takesQuery: boolean;
  readonly handler?: object;
}

/** All routes with the same path. */
export interface KnownPath {
  readonly path: string;
  readonly audience: Audience;
  readonly routes: Map<string, Route>;
}

interface Pattern extends KnownPath {
  readonly pattern: RegExp;
  /** Number of parameters. A pattern with fewer is tried first; a wildcard counts as infinite, and is tried last. */
  readonly parameters: number;
}

declare module 'express-serve-static-core' {
  interface Request {
    /** `guardHead` sets it before any other code reads the request. */
    declared?: Route | undefined;
  }
}

/** @returns the declaration of the route that the request is for */
export function getDeclaredRoute({ declared }: Request): Route {
  if (!declared) throw new Error('The request was not looked up in the table of routes');
  return declared;
}

export const API_PREFIX = '/api/v0';

/** Whether the path lacks the prefix, as in the specification's flows: `/auth/login` for `/api/v0/auth/login`. */
export function isAlias(path: string): boolean {
  return /^\/(auth|users|admin)(\/|$)/.test(path);
}

const DEFAULTS = {
  audience: 'anyone',
  body: 'json',
  headers: [],
  namesHouseholds: false,
  logged: 'all',
  countedAs: [],
} as const;
const NO_FIELDS = { lists: new Map<string, number>(), fields: new Set<string>() } as const;

@Injectable()
export class RouteTable {
  readonly routes: Route[] = [];
  private readonly literals = new Map<string, KnownPath>();
  private readonly patterns: Pattern[] = [];
  private readonly gateways: KnownPath[] = [];

  /** Complete, because Nest scans all modules before it creates the first provider. */
  constructor(modules: ModulesContainer) {
    for (const { controllers } of modules.values())
      for (const { metatype } of controllers.values())
        for (const route of compileRoutes(metatype as Type)) this.add(route);
  }

  /** Adds a page that Nest does not route: it has no door and no body. */
  addPage(path: string, audience: Route['audience']): void {
    this.add({ ...DEFAULTS, audience, doors: [], name: '', method: 'GET', path, ...NO_FIELDS, takesQuery: false });
  }

  /** @param path without a query. Literals precede patterns: `/passkeys/options` is not `/passkeys/:id` */
  findLiteral(path: string): KnownPath | undefined {
    return this.literals.get(path);
  }

  /** @param path without a query */
  find(path: string): KnownPath | undefined {
    return this.literals.get(path) ?? this.patterns.find(({ pattern }) => pattern.test(path));
  }

  /** Finds by prefix, because a gateway appends the path and the query of its client. */
  findForGateway(url: string): KnownPath | undefined {
    return this.gateways.find(({ path }) => url.startsWith(path) && /^[/?]/.test(url.slice(path.length)));
  }

  private add(route: Route): void {
    const { path, audience, method } = route;
    this.routes.push(route);
    const known = this.literals.get(path) ?? this.patterns.find((each) => each.path === path) ?? this.addPath(route);
    if (known.audience !== audience) throw new Error(`The routes of ${path} declare different audiences`);
    known.routes.set(method, route);
    // HEAD is answered as GET (RFC 9110 §9.3.2).
    if (method === 'GET') known.routes.set('HEAD', route);
  }

  private addPath({ path, audience }: Route): KnownPath {
    const known = { path, audience, routes: new Map<string, Route>() };
    const parameters = path.includes('*') ? Infinity : path.split(':').length - 1;
    if (parameters === 0) {
      this.literals.set(path, known);
      if (audience === 'gateways') this.gateways.push(known);
      return known;
    }
    const pattern = { ...known, pattern: toPattern(path), parameters };
    this.patterns.push(pattern);
    this.patterns.sort((one, other) => one.parameters - other.parameters);
    return pattern;
  }
}

/** Parameters (`:id`) stand for one segment, wildcards (`{*rest}`) for any number. */
function toPattern(path: string): RegExp {
  const literal = path.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replace(/:\w+/g, '[^/]+').replace(/\\\{\\\*\w+\\\}/g, '.*')}$`);
}

function compileRoutes(controller: Type): Route[] {
  const prototype = controller.prototype as Readonly<Record<string, object>>;
  const names = new MetadataScanner().getAllMethodNames(prototype);
  return names.flatMap((name) => compileRoute(controller, name, prototype[name] as object) ?? []);
}

/** @returns undefined for a method that handles no request */
function compileRoute(controller: Type, name: string, handler: object): Route | undefined {
  const method = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
  if (method === undefined) return undefined;
  const [base, own] = [controller, handler].map((each) => Reflect.getMetadata(PATH_METADATA, each) as string);
  const path = `/${base}/${own}`.replace(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '');
  const { doors, ...declared } = { ...DEFAULTS, ...readDeclaration(controller), ...readDeclaration(handler) };
  if (!doors) throw new Error(`${controller.name}.${name} declares neither its doors nor that it has none`);
  if (doors.includes('admin') !== (declared.scope !== undefined))
    throw new Error(`${controller.name}.${name} must declare a scope if, and only if, it accepts the admin door`);
  const validated = listValidatedParameters(controller, name);
  const body = validated.find(({ type }) => type === 'body')?.metatype;
  const takesQuery = validated.some(({ type }) => type === 'query');
  const known = body ? { lists: new Map(readListFields(body)), fields: readFieldNames(body) } : NO_FIELDS;
  return { ...declared, doors, name, method: RequestMethod[method], path, ...known, takesQuery, handler };
}

const VALIDATED = new Map<string, 'body' | 'query'>([
  [`${RouteParamtypes.BODY}`, 'body'],
  [`${RouteParamtypes.QUERY}`, 'query'],
]);

/** @returns the parameters of a handler with `@Body()` or `@Query()`, and the classes that validate them */
export function listValidatedParameters(controller: Type, name: string) {
  type Parameters = Readonly<Record<string, { readonly index: number }>>;
  const parameters = (Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, name) ?? {}) as Parameters;
  const types = (Reflect.getMetadata('design:paramtypes', controller.prototype as object, name) ?? []) as Type[];
  return Object.entries(parameters).flatMap(([key, { index }]) => {
    const metatype = types[index];
    const type = VALIDATED.get(key.slice(0, key.indexOf(':')));
    return metatype && type ? [{ index, type, metatype }] : [];
  });
}

function readFieldNames(body: Type): Set<string> {
  const rules = getMetadataStorage().getTargetValidationMetadatas(body, '', false, false);
  return new Set(rules.map(({ propertyName }) => propertyName));
}

/** @returns the most items of each list that the class of a body declares with `ArrayMaxSize`, by its JSON Pointer */
function readListFields(body: Type, parent = ''): [pointer: string, maxItems: number][] {
  const rules = getMetadataStorage().getTargetValidationMetadatas(body, '', false, false);
  return rules.flatMap(({ type, name, propertyName, constraints }): [string, number][] => {
    const pointer = `${parent}/${propertyName}`;
    if (type === ValidationTypes.NESTED_VALIDATION)
      return readListFields(
        Reflect.getMetadata('design:type', body.prototype as object, propertyName) as Type,
        pointer,
      );
    if (name !== ARRAY_MAX_SIZE) return [];
    const [maxItems, below = ''] = constraints as [number, string?];
    return [[pointer + below, maxItems]];
  });
}
