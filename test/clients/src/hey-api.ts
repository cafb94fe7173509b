import { createClient } from '../generated/hey-api/client/index.js';
import { getCurrentUser, login, register, issueNode, validateNode } from '../generated/hey-api/sdk.gen.js';
import { expectData, type Target } from './target.js';

/** The flow of a developer with @hey-api/openapi-ts. */
export async function runFlow({ url, adminKey, account, household_id }: Target): Promise<void> {
  const client = createClient({ baseUrl: url });
  const registered = expectData(await register({ client, body: account }));
  const tokens = expectData(await login({ client, body: account }));
  const me = expectData(await getCurrentUser({ client, auth: tokens.access_token }));
  if (!('id' in registered) || me.id !== registered.id) throw new Error('GET /users/me answered another user');
  const body = { household_id, room: 'kitchen', name: 'speaker' };
  const node = expectData(await issueNode({ client, auth: adminKey, body }));
  const verdict = expectData(await validateNode({ client, auth: toNodeKey(`${node.node_id}:${node.api_key}`) }));
  if (verdict.household_id !== household_id) throw new Error('validate-node answered another household');
  const { error } = await validateNode({ client, auth: toNodeKey('a:b') });
  if (error?.code !== 'invalid_node_credentials') throw new Error(`The refusal has the code ${error?.code}`);
}

/** Answers only for the header of the node, because the route accepts app headers too. */
function toNodeKey(key: string) {
  return ({ name }: { name?: string }): string | undefined => (name === 'X-API-Key' ? key : undefined);
}
