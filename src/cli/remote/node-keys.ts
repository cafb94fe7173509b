import type { ExplanationResponse } from '../../api/admin/key-explanation.dto.js';
import type { IssuedNodeResponse, NodeResponse } from '../../api/admin/nodes.admin.controller.js';
import { MAX_OVERLAP_HOURS } from '../../foundation/config/limits.js';
import type { AdminClient } from './admin-client.js';
import type { ConfigFile, NodePair } from './node-config-file.js';
import { joinPath, withAdvice } from '../http-client.js';
import { replaceControlCharacters } from '../tables.js';
import { CommandFailedError, say } from '../terminal.js';

export type NewNode = Pick<NodeResponse, 'household_id' | 'room' | 'name'> & {
  readonly targets?: NodeResponse['targets'] | undefined;
};

/**
 * Issues a node and writes its pair into its configuration file; when that fails, revokes the node.
 * @throws {CommandFailedError} when the file could not be written
 */
export async function issueInto(client: AdminClient, file: ConfigFile, newNode: NewNode): Promise<IssuedNodeResponse> {
  const node = await issueNode(client, newNode);
  try {
    file.write({ nodeId: node.node_id, apiKey: node.api_key });
  } catch (error) {
    throw new CommandFailedError(`${(error as Error).message} ${await revokeIssued(client, node.node_id)}`);
  }
  return node;
}

export async function issueNode(client: AdminClient, newNode: NewNode): Promise<IssuedNodeResponse> {
  const advice = `If \`platform-auth nodes list --household ${newNode.household_id}\` shows it, its key is lost: revoke it. Then run this again.`;
  return client.post<IssuedNodeResponse>('/nodes', newNode, advice);
}

/**
 * Looks for the household before a call that makes it: the service makes each household that a node or an enrolment
 * names (docs/decisions/0054), also one whose id is mistyped. A failed look-up is not reported, because the call that
 * follows reports the same failure.
 * @returns what to say after the call; undefined when the household exists
 */
export async function findNewHousehold(client: AdminClient, id: string): Promise<string | undefined> {
  const exists = await client.find(joinPath('/households', id)).then(
    (household) => household !== undefined,
    () => true,
  );
  if (exists) return undefined;
  return `Household ${id} is new. If its id is mistyped, delete it with its nodes: platform-auth households delete ${id} --revoke-nodes`;
}

const MAX_NAMED_DUPLICATES = 5;

/** Finds live nodes with the same household, room and name: most likely one device that was registered twice. */
export class DuplicateWatch {
  private readonly counts = new Map<string, number>();

  add({ household_id, room, name, revoked_at }: Partial<NodeResponse>): void {
    if (name === undefined || revoked_at !== null) return;
    const place = `${household_id} ${room}/${name}`;
    this.counts.set(place, (this.counts.get(place) ?? 0) + 1);
  }

  /** @returns undefined when there is no duplicate */
  describe(): string | undefined {
    const places = [...this.counts].filter(([, count]) => count > 1).map(([place, count]) => `${place} (${count})`);
    if (places.length === 0) return undefined;
    const more = places.length > MAX_NAMED_DUPLICATES ? ' …' : '';
    const named = places.slice(0, MAX_NAMED_DUPLICATES).map(replaceControlCharacters).join(', ');
    return `Several live nodes have the same household, room and name: ${named}${more}. Revoke those that are not in use.`;
  }
}

/** Warns after a node was issued. A failed look-up is not reported, because the node exists. */
export async function warnOfDuplicate(client: AdminClient, { household_id, room, name }: NewNode): Promise<void> {
  const query = { household_id, live: 'true', search: `${room}/${name}` };
  const watch = new DuplicateWatch();
  for (const node of await client.list<NodeResponse>('/nodes', query).catch(() => [])) watch.add(node);
  const remark = watch.describe();
  if (remark !== undefined) say(remark);
}

async function revokeIssued(client: AdminClient, nodeId: string): Promise<string> {
  try {
    await client.delete(joinPath('/nodes', nodeId));
    return `Node ${nodeId}, which was issued for it, is revoked again.`;
  } catch (error) {
    return `Node ${nodeId} was issued for it and could NOT be revoked again (${(error as Error).message}). Run: platform-auth nodes revoke ${nodeId}`;
  }
}

/** @throws {CommandFailedError} when the file holds the pair of a live node, or a key that may serve another purpose */
export async function refuseToOverwrite(client: AdminClient, { path, pair }: ConfigFile): Promise<void> {
  const { nodeId, apiKey } = pair;
  if (nodeId === undefined && apiKey !== undefined)
    throw new CommandFailedError(
      `${path} holds an API key without a node id: it may be for something else. Add --replace if not.`,
    );
  if (nodeId === undefined) return;
  const node = await client.find<NodeResponse>(joinPath('/nodes', nodeId));
  if (node && node.revoked_at === null)
    throw new CommandFailedError(
      `${path} holds the pair of node ${nodeId} (${node.room}, ${node.name}), which is not revoked. Rotate that node, or add --replace.`,
    );
}

/**
 * Rotates a node's key so that the key in the file is valid at every moment, whenever this is interrupted:
 * 1. Validate the key in the file, so that the rotation keeps it, even if it is the newer key of an interrupted run.
 * 2. Rotate: the key in the file stays valid until the new one is first used.
 * 3. Write the new key into the file. Old and new are both valid.
 * 4. Validate the new key, which ends the old one, unless `confirms` leaves that to the node.
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
    throw new CommandFailedError(`${path} holds the pair of another node, ${pair.nodeId}. Nothing was changed.`);
  const advice = `Run this again: the key in ${path} is as valid as before.`;
  const { targets } = await client.get<NodeResponse>(joinPath('/nodes', nodeId));
  await withAdvice(useKeyInFile(client, path, nodeId, pair, targets), advice);
  // If a power failure loses the new key, the old one must last until the operator runs this again.
  const rotation = { overlap_hours: MAX_OVERLAP_HOURS };
  const rotated = client.post<IssuedNodeResponse>(joinPath('/nodes', nodeId, 'rotate'), rotation, advice);
  const { api_key: apiKey, ...node } = await rotated;
  try {
    file.write({ nodeId: node.node_id, apiKey });
  } catch (error) {
    throw new CommandFailedError(
      `${(error as Error).message} The new key is lost; the old one stays valid until ${String(node.previous_key_expires_at)}. Run this again.`,
    );
  }
  const isEnded = confirms && (await confirm(client, path, { nodeId: node.node_id, apiKey }, node.targets));
  return isEnded ? { oldKey: 'ended', openUntil: null } : { oldKey: 'open', openUntil: node.previous_key_expires_at };
}

async function useKeyInFile(
  client: AdminClient,
  path: string,
  nodeId: string,
  { apiKey }: Partial<NodePair>,
  targets: NodeResponse['targets'],
): Promise<void> {
  if (apiKey === undefined) return;
  const verdict = await client.validateNode({ nodeId, apiKey }, targets);
  if (verdict === 'refused') say(`The key in ${path} is not valid.`);
  if (verdict !== 'needs_app') return;
  const explanation = await client.get<ExplanationResponse>(joinPath('/nodes', nodeId, 'explain'));
  const openUntil = explanation.previous_key_accepted_until;
  if (openUntil !== null)
    throw new CommandFailedError(
      `An earlier rotation is open until ${openUntil}, and this service tells only other services which of the two keys ${path} holds. ` +
        'Let the node make a call, or set PLATFORM_APP_ID and PLATFORM_APP_KEY to an app credential for this service; then run this again. Nothing was changed.',
    );
}

/** @returns whether the new key was validated; false when the service also requires an app credential */
async function confirm(
  client: AdminClient,
  path: string,
  pair: NodePair,
  targets: NodeResponse['targets'],
): Promise<boolean> {
  const written = `${path} holds the new key.`;
  const verdict = await client.validateNode(pair, targets).catch((error: unknown) => {
    throw new CommandFailedError(
      `${written} It could not be confirmed: ${(error as Error).message} The new key is valid, and the old one too until the new one is first used.`,
    );
  });
  if (verdict === 'refused')
    throw new CommandFailedError(
      `${path} was written, but its key is refused: another rotation ran at the same time. Run this again.`,
    );
  if (verdict === 'needs_app')
    say(
      'Not confirmed: this service requires an app credential with each validation (PLATFORM_APP_ID, PLATFORM_APP_KEY).',
    );
  return verdict === 'accepted';
}
