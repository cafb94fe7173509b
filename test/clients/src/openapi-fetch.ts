import createClient from 'openapi-fetch';
import type { paths } from '../generated/openapi-typescript.js';
import { expectData, type Target } from './target.js';

/** The flow of a developer with openapi-typescript and openapi-fetch. */
export async function runFlow({ url, adminKey, account, household_id }: Target): Promise<void> {
  const client = createClient<paths>({ baseUrl: url });
  const registered = expectData(await client.POST('/api/v0/auth/register', { body: account }));
  const tokens = expectData(await client.POST('/api/v0/auth/login', { body: account }));
  const headers = { Authorization: `${tokens.token_type} ${tokens.access_token}` };
  const me = expectData(await client.GET('/api/v0/users/me', { headers }));
  if (me.id !== registered.id) throw new Error('GET /users/me answered another user');
  const asAdmin = { 'X-Admin-Key': adminKey };
  const body = { household_id, room: 'kitchen', name: 'speaker' };
  const node = expectData(await client.POST('/api/v0/admin/nodes', { body, headers: asAdmin }));
  const asNode = { 'X-API-Key': `${node.node_id}:${node.api_key}` };
  const verdict = expectData(await client.POST('/internal/validate-node', { headers: asNode }));
  if (verdict.household_id !== household_id) throw new Error('validate-node answered another household');
  const { error } = await client.POST('/internal/validate-node', { headers: { 'X-API-Key': 'a:b' } });
  // The code is typed as one of the catalogue.
  if (error?.code !== 'invalid_node_credentials') throw new Error(`The refusal has the code ${error?.code}`);
}
