import type { Type } from '@nestjs/common';
import {
  AppCredentialsQuery,
  IssueAppCredentialRequest,
  UpdateAppCredentialRequest,
} from '../admin/app-credentials.admin.controller.js';
import type { KeyResponse } from '../admin/key.dto.js';
import { NodesQuery, RegisterNodeRequest, UpdateNodeRequest } from '../admin/nodes.admin.controller.js';
import { RegisterOperatorRequest, OperatorsQuery, UpdateOperatorRequest } from '../admin/operators.admin.controller.js';
import { SCOPES } from '../common/names.js';
import type { FieldProps } from './view.js';

/** A field of a form; a list is typed with blanks between its words. */
export interface KindField extends FieldProps {
  readonly isList?: true;
}

/** What the operators' API answers about a credential of any kind. */
export type Credential = KeyResponse & Readonly<Record<string, string | string[] | null>>;

/** One kind of credentials, as the operators' API has them. */
export interface Kind {
  readonly address: string;
  readonly title: string;
  readonly noun: string;
  readonly api: 'apps' | 'nodes' | 'operators';
  readonly scope: string;
  readonly handlers: Readonly<Record<'list' | 'find' | 'issue' | 'rotate' | 'revoke' | 'change', string>>;
  readonly explain?: 'explainNode' | 'explainAppCredential';
  readonly query: Type<object>;
  readonly issue: Type<object>;
  readonly change: Type<object>;
  readonly filters: readonly FieldProps[];
  readonly fields: readonly KindField[];
  /** Names of the fields that may change. */
  readonly changes: readonly string[];
  /** Columns of the list: names of members. */
  readonly columns: readonly (readonly [title: string, member: string])[];
  /** Whether a person types the name before it is revoked. */
  readonly asksForName: boolean;
  readonly idMember: string;
  toName(credential: Credential): string;
  /** The new key, in the forms in which it is needed. */
  formatKey(issued: Credential): readonly (readonly [name: string, text: string])[];
}

const EXPIRES_AT = { label: 'Expires at', name: 'expires_at', hint: 'Such as 2027-01-31T00:00:00Z. Empty: never.' };

export const APPS: Kind = {
  address: '/console/keys',
  title: 'Keys',
  noun: 'app credential',
  api: 'apps',
  scope: 'apps',
  handlers: {
    list: 'listAppCredentials',
    find: 'getAppCredential',
    issue: 'issueAppCredential',
    rotate: 'rotateAppCredential',
    revoke: 'revokeAppCredential',
    change: 'updateAppCredential',
  },
  explain: 'explainAppCredential',
  query: AppCredentialsQuery,
  issue: IssueAppCredentialRequest,
  change: UpdateAppCredentialRequest,
  filters: [
    { label: 'Caller', name: 'caller' },
    { label: 'Target', name: 'target' },
  ],
  fields: [
    { label: 'Caller', name: 'caller', isRequired: true, hint: 'The service that calls.' },
    { label: 'Target', name: 'target', isRequired: true, hint: 'The service that is called, and accepts the key.' },
    { label: 'Scopes', name: 'scopes', isList: true, hint: 'Such as documents:read. Empty: everything.' },
    EXPIRES_AT,
  ],
  changes: ['scopes'],
  columns: [['Scopes', 'scopes']],
  asksForName: false,
  idMember: 'app_id',
  toName: ({ caller, target }) => `${String(caller)} → ${String(target)}`,
  formatKey: ({ app_id, app_key }) => [
    ['Environment', `AUTH_APP_ID=${String(app_id)}\nAUTH_APP_KEY=${String(app_key)}`],
  ],
};

export const NODES: Kind = {
  address: '/console/homes',
  title: 'Homes',
  noun: 'node',
  api: 'nodes',
  scope: 'nodes',
  handlers: {
    list: 'listNodes',
    find: 'getNode',
    issue: 'registerNode',
    rotate: 'rotateNode',
    revoke: 'revokeNode',
    change: 'updateNode',
  },
  explain: 'explainNode',
  query: NodesQuery,
  issue: RegisterNodeRequest,
  change: UpdateNodeRequest,
  filters: [
    { label: 'Household', name: 'household_id' },
    { label: 'Room or name', name: 'search' },
  ],
  fields: [
    { label: 'Household', name: 'household_id', isRequired: true, hint: 'A UUID.' },
    { label: 'Room', name: 'room', isRequired: true },
    { label: 'Name', name: 'name', isRequired: true },
    { label: 'Targets', name: 'targets', isList: true, hint: 'Services that accept its key. Empty: all.' },
    EXPIRES_AT,
  ],
  changes: ['room', 'name', 'targets', 'expires_at'],
  columns: [
    ['Household', 'household_id'],
    ['Targets', 'targets'],
  ],
  asksForName: false,
  idMember: 'node_id',
  toName: ({ room, name }) => `${String(room)}/${String(name)}`,
  formatKey({ node_id, api_key, household_id }) {
    const entries = Object.entries({ node_id, api_key, household_id }).map(
      ([name, value]) => [name, String(value)] as const,
    );
    return [
      ['JSON', JSON.stringify(Object.fromEntries(entries), null, 2)],
      [
        'Environment',
        entries.map(([name, value]) => `${name.replace('api_key', 'node_api_key').toUpperCase()}=${value}`).join('\n'),
      ],
      ['YAML', entries.map(([name, value]) => `${name}: ${value}`).join('\n')],
    ];
  },
};

export const OPERATORS: Kind = {
  address: '/console/operators',
  title: 'Operators',
  noun: 'operator',
  api: 'operators',
  scope: 'operators',
  handlers: {
    list: 'listOperators',
    find: 'getOperator',
    issue: 'registerOperator',
    rotate: 'rotateOperator',
    revoke: 'revokeOperator',
    change: 'updateOperator',
  },
  query: OperatorsQuery,
  issue: RegisterOperatorRequest,
  change: UpdateOperatorRequest,
  filters: [{ label: 'Name', name: 'name' }],
  fields: [
    { label: 'Name', name: 'name', isRequired: true },
    { label: 'Scopes', name: 'scopes', isRequired: true, isList: true, hint: `Some of: ${SCOPES.join(', ')}.` },
    EXPIRES_AT,
  ],
  changes: ['scopes', 'expires_at'],
  columns: [['Scopes', 'scopes']],
  asksForName: true,
  idMember: 'operator_id',
  toName: ({ name }) => String(name),
  formatKey: ({ api_key }) => [['X-Admin-Key', String(api_key)]],
};
