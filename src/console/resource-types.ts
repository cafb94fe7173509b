/** What the pages know of one type of resources: its routes, its list, its form, and its actions. */
import type { Request } from 'express';
import type { ComponentChildren, VNode } from 'preact';
import type { OperatorScope } from '../foundation/common/names.js';
import type { AdminRoute, AdminRoutes, Unvalidated } from './admin-api.js';
import type { FieldProps } from './fields.js';
import type { FactList } from './tables.js';

export type ActionRoute = AdminRoute<[request: Request, id: string, body: Unvalidated], unknown>;

export interface Action<Resource> {
  readonly title: string;
  readonly effect: string;
  readonly route: (api: AdminRoutes) => ActionRoute;
  /** What the call sends besides the fields. */
  readonly body?: Unvalidated;
  /** Whether the operator has to type the name to confirm. */
  readonly asksForName?: boolean;
  /** Only for an action that shows no secret, grants nothing and does little harm: all others need a fresh proof. */
  readonly isHarmless?: boolean;
  readonly fields?: (resource: Resource) => readonly FieldProps[];
}

export type BulkRoute = AdminRoute<[request: Request, body: Unvalidated], { revoked: string[] }>;

export interface BulkAction<Resource> {
  /** Its name in the address of the page that follows. */
  readonly name: string;
  readonly title: string;
  /** What was done, as a participle: it follows the number of the resources. */
  readonly done: string;
  readonly effect: string;
  /** Undefined when the API has none for this type. */
  readonly route: (api: AdminRoutes) => BulkRoute | undefined;
  readonly isPossible: (resource: Resource) => boolean;
  readonly lastUse: (resource: Resource) => string | null;
}

export type ListRoute<Resource> = AdminRoute<[query: Unvalidated], { items: Resource[]; next_cursor: string | null }>;

export interface ResourceRoutes<Resource, Issued extends Resource> {
  readonly list: ListRoute<Resource>;
  /** A list whose filters are sent as a form. */
  readonly search?: ListRoute<Resource>;
  readonly find: AdminRoute<[id: string], Resource>;
  /** Undefined when operators cannot issue this type. */
  readonly issue?: AdminRoute<[request: Request, body: Unvalidated], Issued>;
}

/** One type of resources, as the operators' API has them. */
export interface ResourceType<Resource, Issued extends Resource = Resource> {
  readonly address: string;
  readonly title: string;
  readonly noun: string;
  readonly scope: OperatorScope;
  readonly routes: (api: AdminRoutes) => ResourceRoutes<Resource, Issued>;
  readonly filters: readonly FieldProps[];
  /** The fields of the form for a new one. */
  readonly fields: readonly FieldProps[];
  readonly submit: string;
  /** The columns of the list after the name. */
  readonly head: readonly string[];
  /** The orders of the API, by the columns that have them. The first one is that of the list. */
  readonly orders?: Readonly<Record<string, string>>;
  readonly actions: Readonly<Record<string, Action<Resource>>>;
  /** The titles of actions on its parts, by their names in the address of the page that follows. */
  readonly partActions?: Readonly<Record<string, string>>;
  readonly bulk?: BulkAction<Resource>;
  readonly nameLabel: string;
  /** The filter of the list by which its rows are grouped. */
  readonly groupedBy?: keyof Resource & string;
  /** The address of the pages of what the rows are grouped by. */
  readonly groupAddress?: string;
  readonly toId: (resource: Resource) => string;
  readonly toName: (resource: Resource) => string;
}

export interface Description {
  readonly facts: FactList;
  /** Shows in numbers who would notice an action. */
  readonly use: ComponentChildren;
  readonly more?: VNode;
}

export function toAddressOf<Resource>({ address, toId }: ResourceType<Resource>, resource: Resource): string {
  return `${address}/${toId(resource)}`;
}
