/** What the console knows of each type of credentials. The DTOs of the routes determine the fields of its forms. */
import type { Type } from '@nestjs/common';
import type { Request } from 'express';
import {
  IssueAppCredentialRequest,
  UpdateAppCredentialRequest,
  AppCredentialResponse,
  type IssuedAppCredentialResponse,
} from '../api/admin/app-credentials.admin.controller.js';
import type { ExplanationResponse } from '../api/admin/key-explanation.dto.js';
import type { KeyResponse } from '../api/admin/key.dto.js';
import {
  IssueNodeRequest,
  UpdateNodeRequest,
  type IssuedNodeResponse,
  NodeResponse,
} from '../api/admin/nodes.admin.controller.js';
import {
  IssueOperatorRequest,
  UpdateOperatorRequest,
  type IssuedOperatorResponse,
  OperatorResponse,
} from '../api/admin/operators.admin.controller.js';
import { KEY_KINDS, type KeyHolder, type KeyKindName } from '../foundation/common/key-kinds.js';
import { toCredentialVariables } from '../foundation/common/names.js';
import { DEFAULT_OVERLAP_HOURS } from '../foundation/config/limits.js';
import type { AdminRoute, AdminRoutes, Unvalidated } from './admin-api.js';
import { PAST_USES, SOON } from './moments.js';
import { listFields, showValue, toLabel } from './properties.js';
import type { ActionRoute, BulkRoute, ResourceRoutes, ResourceType } from './resource-types.js';
import type { FieldProps } from './fields.js';

interface CredentialRoutes<Row, Issued extends Row> extends ResourceRoutes<Row, Issued> {
  readonly rotate: AdminRoute<[request: Request, id: string, body: Unvalidated], Issued>;
  readonly change: ActionRoute;
  readonly revoke: ActionRoute;
  readonly revokeMany?: BulkRoute;
}

interface CredentialTypeOptions<Row, Issued extends Row> extends Pick<
  ResourceType<Row, Issued>,
  'noun' | 'filters' | 'groupedBy' | 'groupAddress' | 'toId'
> {
  readonly kind: KeyKindName;
  /** The filters of the list by which a search finds it. */
  readonly searchedBy: readonly string[];
  readonly routes: (api: AdminRoutes) => CredentialRoutes<Row, Issued>;
  readonly explain?: (api: AdminRoutes) => AdminRoute<[id: string, query: Unvalidated], ExplanationResponse>;
  readonly response: Type<Row>;
  readonly issueBody: Type<object>;
  readonly changeBody: Type<object>;
  readonly hints: Readonly<Partial<Record<keyof Row, string>>>;
  /** The field that restricts the key; null means all. */
  readonly restriction: keyof Row & string;
  /** Only for keys that replicas share: the rotation of a node's key ends at the first use of the new one. */
  readonly finish?: (api: AdminRoutes) => ActionRoute;
  readonly asksForName?: true;
  /** Only for keys with a life, which a rotation starts again. */
  readonly getLifeDays?: (item: Row) => number | null;
  /** @returns the new key, in the forms in which it is needed */
  readonly formatKey: (issued: Issued) => readonly (readonly [name: string, text: string])[];
}

export type CredentialType<Row, Issued extends Row> = CredentialTypeOptions<Row, Issued> & ResourceType<Row, Issued>;

const OVERLAP: FieldProps = {
  label: 'Hours for which the old key stays valid',
  name: 'overlap_hours',
  type: 'number',
  value: String(DEFAULT_OVERLAP_HOURS),
  hint: 'That of a node ends earlier, with the first use of the new key. 0 ends it at once.',
};
const REVOCATION =
  'The key is refused from the next call on, at every service. This cannot be undone: it would need a new one.';
const BULK_REVOCATION = {
  name: 'revoked',
  title: 'Revoke',
  done: 'revoked',
  effect:
    'Their keys are refused from the next call on, at every service. This cannot be undone: each would need a new one.',
  isPossible: ({ revoked_at }: KeyResponse) => revoked_at === null,
  lastUse: ({ last_used_at }: KeyResponse) => last_used_at,
};
const STATE_FILTERS: readonly FieldProps[] = [
  { label: 'State', name: 'live', options: { '': 'all', true: 'live' } },
  { label: 'Rotation', name: 'in_overlap', options: { '': 'all', true: 'old key still valid' } },
  { label: 'Not used since', name: 'unused_since', type: 'moment', options: PAST_USES },
  { label: 'Expires before', name: 'expires_before', type: 'moment', options: SOON },
];

function getWords(kind: KeyKindName) {
  const { title, path, scope, toOwner: toName } = KEY_KINDS[kind];
  return { title, address: `/console${path}`, scope, toName };
}

function createActions<Row extends KeyResponse, Issued extends Row>(
  { routes, finish, asksForName, changeBody }: CredentialTypeOptions<Row, Issued>,
  hints: Readonly<Record<string, string | undefined>>,
): CredentialType<Row, Issued>['actions'] {
  const show = (item: Row, field: FieldProps) => ({ ...field, value: showValue(item[field.name as keyof Row]) });
  return {
    rotate: {
      title: 'Rotate',
      effect: 'A new key is issued, and works at once. The old one ends as you say below.',
      route: (api) => routes(api).rotate,
      fields: () => [OVERLAP],
    },
    ...(finish && {
      finish: {
        title: 'Finish the rotation',
        effect: 'The old key is refused from the next call on, at every service. Replicas that still use it stop.',
        route: finish,
      },
    }),
    change: {
      title: 'Change',
      effect: 'It holds from the next call on, at every service.',
      route: (api) => routes(api).change,
      fields: (item) => listFields(changeBody, hints).map((field) => show(item, field)),
    },
    revoke: {
      title: 'Revoke',
      effect: REVOCATION,
      route: (api) => routes(api).revoke,
      ...(asksForName && { asksForName }),
    },
  };
}

function createCredentialType<Row extends KeyResponse & KeyHolder, Issued extends Row>(
  options: CredentialTypeOptions<Row, Issued>,
): CredentialType<Row, Issued> {
  const { kind, routes, issueBody } = options;
  const hints = { expires_at: 'Empty: never.', ...options.hints };
  return {
    ...options,
    ...getWords(kind),
    bulk: { ...BULK_REVOCATION, route: (api) => routes(api).revokeMany },
    filters: [...options.filters, ...STATE_FILTERS],
    get fields() {
      return listFields(issueBody, hints);
    },
    head: ['State', toLabel(options.restriction), 'Issued', 'Expires', 'Last used'],
    orders: { ...(options.groupedBy && { Name: options.groupedBy }), Issued: 'created_at' },
    nameLabel: 'Type the name',
    submit: 'Issue the key',
    actions: createActions(options, hints),
  };
}

const APP_CREDENTIALS = createCredentialType<AppCredentialResponse, IssuedAppCredentialResponse>({
  kind: 'app',
  noun: 'app credential',
  routes: ({ appCredentials }) => ({
    list: appCredentials.listAppCredentials,
    find: appCredentials.getAppCredential,
    issue: appCredentials.issueAppCredential,
    rotate: appCredentials.rotateAppCredential,
    change: appCredentials.updateAppCredential,
    revoke: appCredentials.revokeAppCredential,
    revokeMany: appCredentials.revokeAppCredentials,
  }),
  finish: ({ appCredentials }) => appCredentials.finishAppCredentialRotation,
  explain: ({ appCredentials }) => appCredentials.explainAppCredential,
  response: AppCredentialResponse,
  issueBody: IssueAppCredentialRequest,
  changeBody: UpdateAppCredentialRequest,
  filters: [
    { label: 'Caller', name: 'caller' },
    { label: 'Target', name: 'target' },
  ],
  searchedBy: ['caller', 'target'],
  hints: {
    caller: 'The service that calls.',
    target: 'The service that is called, and accepts the key.',
    scopes: 'Such as documents:read. Empty: everything.',
  },
  restriction: 'scopes',
  toId: ({ app_id }) => app_id,
  getLifeDays: ({ life_days }) => life_days,
  formatKey({ app_id, app_key, target }) {
    const { id, key } = toCredentialVariables(target);
    return [['Environment', `${id}=${app_id}\n${key}=${app_key}`]];
  },
});

const NODES = createCredentialType<NodeResponse, IssuedNodeResponse>({
  kind: 'node',
  noun: 'node',
  routes: ({ nodes }) => ({
    list: nodes.listNodes,
    find: nodes.getNode,
    issue: nodes.issueNode,
    rotate: nodes.rotateNode,
    change: nodes.updateNode,
    revoke: nodes.revokeNode,
    revokeMany: nodes.revokeNodes,
  }),
  explain: ({ nodes }) => nodes.explainNode,
  response: NodeResponse,
  issueBody: IssueNodeRequest,
  changeBody: UpdateNodeRequest,
  filters: [
    { label: 'Household', name: 'household_id' },
    { label: 'Room or name', name: 'search' },
  ],
  searchedBy: ['search'],
  hints: { household_id: 'A UUID.', targets: 'Services that accept its key. Empty: all.' },
  restriction: 'targets',
  groupedBy: 'household_id',
  groupAddress: '/console/households',
  toId: ({ node_id }) => node_id,
  formatKey({ node_id, api_key, household_id }) {
    const entries = Object.entries({ node_id, api_key, household_id });
    return [
      ['JSON', JSON.stringify(Object.fromEntries(entries), null, 2)],
      ['Environment', entries.map(([name, value]) => `${name.toUpperCase()}=${value}`).join('\n')],
      ['YAML', entries.map(([name, value]) => `${name}: ${value}`).join('\n')],
    ];
  },
});

const OPERATORS = createCredentialType<OperatorResponse, IssuedOperatorResponse>({
  kind: 'operator',
  noun: 'operator',
  routes: ({ operators }) => ({
    list: operators.listOperators,
    find: operators.getOperator,
    issue: operators.issueOperator,
    rotate: operators.rotateOperator,
    change: operators.updateOperator,
    revoke: operators.revokeOperator,
  }),
  finish: ({ operators }) => operators.finishOperatorRotation,
  response: OperatorResponse,
  issueBody: IssueOperatorRequest,
  changeBody: UpdateOperatorRequest,
  filters: [{ label: 'Name', name: 'name' }],
  searchedBy: ['name'],
  hints: {},
  restriction: 'scopes',
  asksForName: true,
  toId: ({ operator_id }) => operator_id,
  formatKey: ({ api_key }) => [['X-Admin-Key', api_key]],
});

/** Calls a function for each type. An array of them would lose which responses belong to which routes. */
export function mapCredentialTypes<Result>(
  use: <Row extends KeyResponse, Issued extends Row>(type: CredentialType<Row, Issued>) => Result,
): Result[] {
  return [use(NODES), use(APP_CREDENTIALS), use(OPERATORS)];
}
