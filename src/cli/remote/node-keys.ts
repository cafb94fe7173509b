import { MAX_OVERLAP_HOURS } from '../../config/limits.js';
import type { AdminClient } from './admin-client.js';
import type { ConfigFile } from './config-file.js';
import type { NodePair } from './config-format.js';
import { segment } from './remote-command.js';
import { orAdvise } from '../service-call.js';
import { CommandFailed, say } from '../terminal.js';

export interface NodeView {
  readonly [field: string]: string | null;
  readonly node_id: string;
  readonly household_id: string;
  readonly room: string;
  readonly name: string;
  readonly last_used_at: string | null;
  readonly revoked_at: string | null;
  readonly previous_key_expires_at: string | null;
}
export type IssuedNode = NodeView & { readonly api_key: string };

export interface Registration {
  readonly household_id: string;
  readonly room: string;
  readonly name: string;
}

/**
 * Registers a node and writes its pair into its configuration file, or leaves no node behind.
 * @throws {CommandFailed} when the file holds another node's pair, or could not be written after all
 */
export async function registerInto(
  client: AdminClient,
  file: ConfigFile,
  registration: Registration,
): Promise<IssuedNode> {
  const node = await register(client, registration);
  try {
    file.write({ nodeId: node.node_id, apiKey: node.api_key });
  } catch (error) {
    throw new CommandFailed(`${(error as Error).message} ${await takenBack(client, node.node_id)}`);
  }
  return node;
}

export async function register(client: AdminClient, registration: Registration): Promise<IssuedNode> {
  return orAdvise(
    client.post<IssuedNode>('/nodes', registration),
    `If \`platform-auth nodes list --household ${registration.household_id}\` shows it, nobody has its key: revoke it. Then run this again.`,
  );
}

async function takenBack(client: AdminClient, nodeId: string): Promise<string> {
  try {
    await client.delete(`/nodes/${segment(nodeId)}`);
    return `Node ${nodeId}, which was registered for it, is revoked again.`;
  } catch (error) {
    return `Node ${nodeId} was registered for it and could NOT be revoked again (${(error as Error).message}). Run: platform-auth nodes revoke ${nodeId}`;
  }
}

/** @throws {CommandFailed} when what the file holds is somebody's: a live node's pair, or a key of another kind */
export async function refuseToOverwrite(client: AdminClient, { path, pair }: ConfigFile): Promise<void> {
  const { nodeId, apiKey } = pair;
  if (nodeId === undefined && apiKey !== undefined)
    throw new CommandFailed(
      `${path} holds an API key without a node id: it may be for something else. Add --replace if not.`,
    );
  if (nodeId === undefined) return;
  const node = await client.find<NodeView>(`/nodes/${segment(nodeId)}`);
  if (node && node.revoked_at === null) {
    throw new CommandFailed(
      `${path} is that of node ${nodeId} (${node.room}, ${node.name}), which is not revoked. Rotate that node, or add --replace.`,
    );
  }
}

/**
 * Gives a node a new key in two phases, so that what the file holds is good whenever this is interrupted:
 * 1. The key in the file is used. If it is the newer one of an interrupted run, it now is the only one; if it is
 *    the older one, the rotation keeps it. Either way the rotation does not end it.
 * 2. A new key is made; the one in the file stays good until the new one is first used.
 * 3. The new key is put into the file, which holds one or the other, and both are good.
 * 4. The new key is used, which ends the old one, unless that is left to the node.
 *
 * @returns whether the old key has ended, and when it will at the latest
 */
export async function rotateInto(
  client: AdminClient,
  file: ConfigFile,
  nodeId: string,
  confirms: boolean,
): Promise<{ oldKey: 'ended' | 'open'; openUntil: string | null }> {
  const { path, pair } = file;
  if (pair.nodeId !== undefined && pair.nodeId.toLowerCase() !== nodeId.toLowerCase())
    throw new CommandFailed(`${path} holds the pair of another node, ${pair.nodeId}. Nothing was changed.`);
  const advice = `Run this again: the key in ${path} is as good as it was.`;
  await orAdvise(settle(client, path, nodeId, pair), advice);
  // A key that was made and lost with the power must not cost the node its old one before somebody runs this again.
  const rotation = { overlap_hours: MAX_OVERLAP_HOURS };
  const rotated = client.post<IssuedNode>(`/nodes/${segment(nodeId)}/rotate`, rotation);
  const { api_key: apiKey, ...node } = await orAdvise(rotated, advice);
  try {
    file.write({ nodeId: node.node_id, apiKey });
  } catch (error) {
    throw new CommandFailed(
      `${(error as Error).message} The new key is lost; the old one stays good until ${String(node.previous_key_expires_at)}. Run this again.`,
    );
  }
  const isEnded = confirms && (await confirm(client, path, { nodeId: node.node_id, apiKey }));
  return isEnded ? { oldKey: 'ended', openUntil: null } : { oldKey: 'open', openUntil: node.previous_key_expires_at };
}

async function settle(client: AdminClient, path: string, nodeId: string, { apiKey }: Partial<NodePair>): Promise<void> {
  if (apiKey === undefined) return;
  const verdict = await client.validateNode({ nodeId, apiKey });
  if (verdict === 'refused') say(`The key in ${path} is not good any more, or never was.`);
  if (verdict !== 'needs_app') return;
  const { previous_key_accepted_until: openUntil } = await client.get<{ previous_key_accepted_until: string | null }>(
    `/nodes/${segment(nodeId)}/explain`,
  );
  if (openUntil !== null) {
    throw new CommandFailed(
      `An earlier rotation is open until ${openUntil}, and this service tells only to other services which of the two keys ${path} holds. ` +
        'Let the node make a call, or set PLATFORM_APP_ID and PLATFORM_APP_KEY to an app credential for this service; then run this again. Nothing was changed.',
    );
  }
}

/** @returns false when that is not ours to do */
async function confirm(client: AdminClient, path: string, pair: NodePair): Promise<boolean> {
  const rest = `${path} holds the new key.`;
  const verdict = await client.validateNode(pair).catch((error: unknown) => {
    throw new CommandFailed(
      `${rest} It could not be confirmed: ${(error as Error).message} The new key is good, and the old one too until the new one is first used.`,
    );
  });
  if (verdict === 'refused')
    throw new CommandFailed(
      `${path} was written, but its key is refused: another rotation came in between. Run this again.`,
    );
  if (verdict === 'needs_app')
    say(
      'Not confirmed: this service wants an app credential for it with each validation (PLATFORM_APP_ID, PLATFORM_APP_KEY).',
    );
  return verdict === 'accepted';
}
