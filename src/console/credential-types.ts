import type { Type } from '@nestjs/common';
import {
  AppCredentialsAdminController,
  AppCredentialsQuery,
  IssueAppCredentialRequest,
  UpdateAppCredentialRequest,
} from '../api/admin/app-credentials.admin.controller.js';
import type { KeyResponse } from '../api/admin/key.dto.js';
import {
  NodesAdminController,
  NodesQuery,
  IssueNodeRequest,
  UpdateNodeRequest,
} from '../api/admin/nodes.admin.controller.js';
import {
  OperatorsAdminController,
  OperatorsQuery,
  IssueOperatorRequest,
  UpdateOperatorRequest,
} from '../api/admin/operators.admin.controller.js';
import { credentialVariables, SCOPES } from '../foundation/common/names.js';
import { DEFAULT_OVERLAP_HOURS } from '../foundation/config/limits.js';
import type { Action, ResourceType } from './resource-pages.js';
import { MOMENT_HINT, toAddress, type FieldProps } from './view.js';

/** A field of a form; a list is typed with blanks between its words. */
interface CredentialField extends FieldProps {
  readonly isList?: true;
}

/** What the operators' API answers about a credential of any type. */
export type Credential = KeyResponse & Readonly<Record<string, string | string[] | null>>;

export interface CredentialType extends ResourceType<Credential> {
  readonly fields: readonly CredentialField[];
  readonly changeable: readonly CredentialField[];
  readonly actions: Readonly<Record<'rotate' | 'change' | 'revoke', Action<Credential>>> & {
    /** Of a key that replicas share: the first use of a node's new key finishes its rotation. */
    readonly finish?: Action<Credential>;
  };
  readonly explain?: 'explainNode' | 'explainAppCredential';
  readonly issueBody: Type<object>;
  readonly changeBody: Type<object>;
  /** What the key is restricted to: a title, and the member with the names; none means all. */
  readonly restriction: readonly [title: string, member: string];
  /** The new key, in the forms in which it is needed. */
  formatKey(issued: Credential): readonly (readonly [name: string, text: string])[];
}

export function showValue(value: Credential[string] | undefined): string {
  return Array.isArray(value) ? value.join(' ') : (value ?? '');
}

const EXPIRES_AT = { label: 'Expires at', name: 'expires_at', hint: `${MOMENT_HINT} Empty: never.` };
const OVERLAP: FieldProps = {
  label: 'Hours for which the old key stays valid',
  name: 'overlap_hours',
  type: 'number',
  value: String(DEFAULT_OVERLAP_HOURS),
  hint: 'That of a node ends earlier, with the first use of the new key. 0 ends it at once.',
};
const STATE_FILTERS: readonly FieldProps[] = [
  { label: 'State', name: 'live', options: { '': 'all', true: 'live' } },
  { label: 'Rotation', name: 'in_overlap', options: { '': 'all', true: 'old key still valid' } },
  { label: 'Not used since', name: 'unused_since', hint: MOMENT_HINT },
  { label: 'Expires before', name: 'expires_before', hint: MOMENT_HINT },
];

type Given = Omit<CredentialType, 'actions' | 'changeable' | 'head' | 'nameLabel' | 'submit'> & {
  /** Names of the fields that may change. */
  readonly changes: readonly string[];
  readonly actions: Readonly<Record<'rotate' | 'change' | 'revoke', string>> & { readonly finish?: string };
  readonly asksForName?: true;
};

function createCredentialType({ changes, actions, asksForName, ...given }: Given): CredentialType {
  const changeable = given.fields.filter(({ name }) => changes.includes(name));
  return {
    ...given,
    changeable,
    filters: [...given.filters, ...STATE_FILTERS],
    head: ['State', given.restriction[0], 'Last used'],
    nameLabel: 'Type the name',
    submit: 'Issue the key',
    actions: {
      rotate: {
        title: 'Rotate',
        effect: 'A new key is issued, and works at once. The old one ends as you say below.',
        handler: actions.rotate,
        fields: () => [OVERLAP],
      },
      ...(actions.finish !== undefined && {
        finish: {
          title: 'Finish the rotation',
          effect: 'The old key is refused from the next call on, at every service. Replicas that still use it stop.',
          handler: actions.finish,
        },
      }),
      change: {
        title: 'Change',
        effect: 'It holds from the next call on, at every service.',
        handler: actions.change,
        fields: (item) => changeable.map((field) => ({ ...field, value: showValue(item[field.name]) })),
      },
      revoke: {
        title: 'Revoke',
        effect:
          'Its key is refused from the next call on, at every service. This cannot be undone: it would need a new one.',
        handler: actions.revoke,
        ...(asksForName && { asksForName }),
      },
    },
  };
}

export const APPS = createCredentialType({
  address: '/console/app-credentials',
  title: 'Keys',
  noun: 'app credential',
  controller: AppCredentialsAdminController,
  scope: 'apps',
  handlers: { list: 'listAppCredentials', find: 'getAppCredential', issue: 'issueAppCredential' },
  actions: {
    rotate: 'rotateAppCredential',
    finish: 'finishAppCredentialRotation',
    change: 'updateAppCredential',
    revoke: 'revokeAppCredential',
  },
  explain: 'explainAppCredential',
  query: AppCredentialsQuery,
  issueBody: IssueAppCredentialRequest,
  changeBody: UpdateAppCredentialRequest,
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
  restriction: ['Scopes', 'scopes'],
  toId: ({ app_id }) => String(app_id),
  toName: ({ caller, target }) => `${String(caller)} → ${String(target)}`,
  formatKey({ app_id, app_key, target }) {
    const { id, key } = credentialVariables(String(target));
    return [['Environment', `${id}=${String(app_id)}\n${key}=${String(app_key)}`]];
  },
});

export const NODES = createCredentialType({
  address: '/console/nodes',
  title: 'Homes',
  noun: 'node',
  controller: NodesAdminController,
  scope: 'nodes',
  handlers: { list: 'listNodes', find: 'getNode', issue: 'issueNode' },
  actions: { rotate: 'rotateNode', change: 'updateNode', revoke: 'revokeNode' },
  explain: 'explainNode',
  query: NodesQuery,
  issueBody: IssueNodeRequest,
  changeBody: UpdateNodeRequest,
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
  restriction: ['Targets', 'targets'],
  toId: ({ node_id }) => String(node_id),
  toName: ({ room, name }) => `${String(room)}/${String(name)}`,
  toGroup({ household_id }) {
    const household = String(household_id);
    return { text: `Household ${household}`, address: toAddress('/console/nodes', { household_id: household }) };
  },
  formatKey({ node_id, api_key, household_id }) {
    const entries = Object.entries({ node_id, api_key, household_id }).map(
      ([name, value]) => [name, String(value)] as const,
    );
    return [
      ['JSON', JSON.stringify(Object.fromEntries(entries), null, 2)],
      ['Environment', entries.map(([name, value]) => `${name.toUpperCase()}=${value}`).join('\n')],
      ['YAML', entries.map(([name, value]) => `${name}: ${value}`).join('\n')],
    ];
  },
});

export const OPERATORS = createCredentialType({
  address: '/console/operators',
  title: 'Operators',
  noun: 'operator',
  controller: OperatorsAdminController,
  scope: 'operators',
  handlers: { list: 'listOperators', find: 'getOperator', issue: 'issueOperator' },
  actions: {
    rotate: 'rotateOperator',
    finish: 'finishOperatorRotation',
    change: 'updateOperator',
    revoke: 'revokeOperator',
  },
  query: OperatorsQuery,
  issueBody: IssueOperatorRequest,
  changeBody: UpdateOperatorRequest,
  filters: [{ label: 'Name', name: 'name' }],
  fields: [
    { label: 'Name', name: 'name', isRequired: true },
    { label: 'Scopes', name: 'scopes', isRequired: true, isList: true, hint: `Some of: ${SCOPES.join(', ')}.` },
    EXPIRES_AT,
  ],
  changes: ['scopes', 'expires_at'],
  restriction: ['Scopes', 'scopes'],
  asksForName: true,
  toId: ({ operator_id }) => String(operator_id),
  toName: ({ name }) => String(name),
  formatKey: ({ api_key }) => [['X-Admin-Key', String(api_key)]],
});
