import {
  AppCredentialsQuery,
  MintAppCredentialRequest,
  type AppCredentialResponse,
} from '../admin/app-credentials.admin.controller.js';
import {
  NodesQuery,
  RegisterNodeRequest,
  UpdateNodeRequest,
  type NodeResponse,
} from '../admin/nodes.admin.controller.js';
import {
  AddOperatorRequest,
  OperatorsQuery,
  UpdateOperatorRequest,
  type OperatorResponse,
} from '../admin/operators.admin.controller.js';
import { SCOPES } from '../common/names.js';
import { AdminApi } from './admin-api.js';
import { ConsolePages, getSession } from './console-requests.js';
import { CredentialPages, type Item, type Kind } from './credential-pages.js';
import { Name } from './view.js';

const EXPIRES_AT = { label: 'Expires at', name: 'expires_at', hint: 'Such as 2027-01-31T00:00:00Z. Empty: unchanged.' };

function toList(text: string | undefined): string[] | undefined {
  const words = (text ?? '').split(/[\s,]+/).filter((word) => word !== '');
  return words.length === 0 ? undefined : words;
}

const toPage = <Response,>(
  { items, next_cursor }: { items: Response[]; next_cursor: string | null },
  toItem: (each: Response) => Item,
) => ({ items: items.map(toItem), next: next_cursor });

const toApp = (app: AppCredentialResponse): Item => ({
  id: app.app_id,
  name: `${app.caller} → ${app.target}`,
  key: app,
  cells: [app.caller, app.target],
});

const createAppKind = (api: AdminApi): Kind => ({
  address: '/console/keys',
  title: 'Keys',
  noun: 'app credential',
  scope: 'apps',
  head: ['Caller', 'Target'],
  filters: [
    { label: 'Caller', name: 'caller' },
    { label: 'Target', name: 'target' },
  ],
  fields: [
    { label: 'Caller', name: 'caller', isRequired: true, hint: 'The service that calls.' },
    { label: 'Target', name: 'target', isRequired: true, hint: 'The service that is called, and accepts the key.' },
  ],
  asksForName: false,
  may(request, act) {
    const names = { issue: 'mintAppCredential', rotate: 'rotateAppCredential', revoke: 'revokeAppCredential' } as const;
    return act !== 'change' && api.mayCall(getSession(request), api.apps, names[act]);
  },
  async list(request, query) {
    const read = await api.read('query', AppCredentialsQuery, query);
    return toPage(await api.call(request, api.apps, 'listAppCredentials', read), toApp);
  },
  async find(request, id) {
    return toApp(await api.call(request, api.apps, 'getAppCredential', id));
  },
  explain: (request, id) => api.call(request, api.explanations, 'explainAppCredential', id, {}),
  async issue(request, { caller, target, expires_at }) {
    const body = await api.read('body', MintAppCredentialRequest, { caller, target, expires_at });
    return toIssuedApp(await api.call(request, api.apps, 'mintAppCredential', request, body));
  },
  async rotate(request, id, rotation) {
    return toIssuedApp(await api.call(request, api.apps, 'rotateAppCredential', request, id, rotation));
  },
  revoke: (request, id) => api.call(request, api.apps, 'revokeAppCredential', request, id),
  listChanges: () => [],
  change: () => Promise.resolve(),
});

function toIssuedApp(issued: AppCredentialResponse & { app_key: string }) {
  const { app_id, app_key } = issued;
  const environment = `AUTH_APP_ID=${app_id}\nAUTH_APP_KEY=${app_key}`;
  return { item: toApp(issued), secrets: [['Environment', environment]] as const };
}

const toNode = (node: NodeResponse): Item => ({
  id: node.node_id,
  name: `${node.room}/${node.name}`,
  key: node,
  cells: [<code>{node.household_id}</code>, <Name text={node.room} />, <Name text={node.name} />],
});

const createNodeKind = (api: AdminApi): Kind => ({
  address: '/console/homes',
  title: 'Homes',
  noun: 'node',
  scope: 'nodes',
  head: ['Household', 'Room', 'Device'],
  filters: [
    { label: 'Household', name: 'household_id' },
    { label: 'Room or name', name: 'search' },
  ],
  fields: [
    { label: 'Household', name: 'household_id', isRequired: true, hint: 'A UUID.' },
    { label: 'Room', name: 'room', isRequired: true },
    { label: 'Name', name: 'name', isRequired: true },
  ],
  asksForName: false,
  may(request, act) {
    const names = { issue: 'registerNode', rotate: 'rotateNode', revoke: 'revokeNode', change: 'updateNode' } as const;
    return api.mayCall(getSession(request), api.nodes, names[act]);
  },
  async list(request, query) {
    const read = await api.read('query', NodesQuery, query);
    return toPage(await api.call(request, api.nodes, 'listNodes', read), toNode);
  },
  async find(request, id) {
    return toNode(await api.call(request, api.nodes, 'getNode', id));
  },
  explain: (request, id) => api.call(request, api.explanations, 'explainNode', id),
  async issue(request, { household_id, room, name, expires_at }) {
    const body = await api.read('body', RegisterNodeRequest, { household_id, room, name, expires_at });
    return toIssuedNode(await api.call(request, api.nodes, 'registerNode', request, body));
  },
  async rotate(request, id, rotation) {
    return toIssuedNode(await api.call(request, api.nodes, 'rotateNode', request, id, rotation));
  },
  revoke: (request, id) => api.call(request, api.nodes, 'revokeNode', request, id),
  listChanges({ key }) {
    const { room, name } = key as NodeResponse;
    return [{ label: 'Room', name: 'room', value: room }, { label: 'Name', name: 'name', value: name }, EXPIRES_AT];
  },
  async change(request, id, { room, name, expires_at }) {
    const body = await api.read('body', UpdateNodeRequest, { room, name, expires_at });
    return api.call(request, api.nodes, 'updateNode', request, id, body);
  },
});

function toIssuedNode(issued: NodeResponse & { api_key: string }) {
  const { node_id, api_key, household_id } = issued;
  const secrets = [
    ['JSON', JSON.stringify({ node_id, api_key, household_id }, null, 2)],
    ['Environment', `NODE_ID=${node_id}\nNODE_API_KEY=${api_key}\nHOUSEHOLD_ID=${household_id}`],
    ['YAML', `node_id: ${node_id}\napi_key: ${api_key}\nhousehold_id: ${household_id}`],
  ] as const;
  return { item: toNode(issued), secrets };
}

const toOperator = (operator: OperatorResponse): Item => ({
  id: operator.operator_id,
  name: operator.name,
  key: operator,
  cells: [operator.scopes.join(', ')],
});

const createOperatorKind = (api: AdminApi): Kind => ({
  address: '/console/operators',
  title: 'Operators',
  noun: 'operator',
  scope: 'operators',
  head: ['Scopes'],
  filters: [{ label: 'Name', name: 'name' }],
  fields: [
    { label: 'Name', name: 'name', isRequired: true },
    { label: 'Scopes', name: 'scopes', isRequired: true, hint: `Some of: ${SCOPES.join(', ')}.` },
  ],
  asksForName: true,
  may(request, act) {
    const names = {
      issue: 'addOperator',
      rotate: 'rotateOperator',
      revoke: 'revokeOperator',
      change: 'updateOperator',
    } as const;
    return api.mayCall(getSession(request), api.operators, names[act]);
  },
  async list(request, query) {
    const read = await api.read('query', OperatorsQuery, query);
    return toPage(await api.call(request, api.operators, 'listOperators', read), toOperator);
  },
  async find(request, id) {
    return toOperator(await api.call(request, api.operators, 'getOperator', id));
  },
  async issue(request, { name, scopes, expires_at }) {
    const body = await api.read('body', AddOperatorRequest, { name, scopes: toList(scopes), expires_at });
    return toIssuedOperator(await api.call(request, api.operators, 'addOperator', request, body));
  },
  async rotate(request, id, rotation) {
    return toIssuedOperator(await api.call(request, api.operators, 'rotateOperator', request, id, rotation));
  },
  revoke: (request, id) => api.call(request, api.operators, 'revokeOperator', request, id),
  listChanges({ key }) {
    const { scopes } = key as OperatorResponse;
    return [{ label: 'Scopes', name: 'scopes', value: scopes.join(' '), isRequired: true }, EXPIRES_AT];
  },
  async change(request, id, { scopes, expires_at }) {
    const body = await api.read('body', UpdateOperatorRequest, { scopes: toList(scopes), expires_at });
    return api.call(request, api.operators, 'updateOperator', request, id, body);
  },
});

function toIssuedOperator(issued: OperatorResponse & { api_key: string }) {
  return { item: toOperator(issued), secrets: [['X-Admin-Key', issued.api_key]] as const };
}

@ConsolePages('console/keys')
export class KeysPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, createAppKind(api));
  }
}

@ConsolePages('console/homes')
export class HomesPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, createNodeKind(api));
  }
}

@ConsolePages('console/operators')
export class OperatorsPages extends CredentialPages {
  constructor(api: AdminApi) {
    super(api, createOperatorKind(api));
  }
}
