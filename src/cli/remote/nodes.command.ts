import { Option, type Command } from 'commander';
import { EXAMPLES } from '../../foundation/common/names.js';
import { addCommand, NEEDS_ADMIN_KEY, parseExpiry, parseTargets, parseUuid, TARGETS } from '../command-options.js';
import { formatFields } from '../tables.js';
import { formatResult, print, refuseNullOutput, say, writeKey } from '../terminal.js';
import type { IssuedNodeResponse } from '../../api/admin/nodes.admin.controller.js';
import {
  addList,
  addRevoke,
  addShow,
  addUpdate,
  createOverlapOption,
  rotateKey,
  type CredentialType,
} from './credentials.command.js';
import { addEnrolmentCommands, addNodeOptions } from './enrolments.command.js';
import type { ConfigFormat } from './node-config-file.js';
import {
  DuplicateWatch,
  findNewHousehold,
  refuseToOverwrite,
  issueNode,
  warnOfDuplicate,
  issueInto,
  rotateInto,
  type NewNode,
} from './node-keys.js';
import { addRemote, createClient, toParameters } from './remote-command.js';

const NODES: CredentialType = {
  type: 'node',
  name: 'Node',
  idField: 'node_id',
  path: '/nodes',
  columns: ['node_id', 'household_id', 'room', 'name', 'targets', 'last_used_at', 'expires_at', 'revoked_at'],
  drop: ['household_id', 'expires_at', 'revoked_at', 'last_used_at', 'targets'],
};
const CONFIG_FORMATS = ['json', 'env', 'yaml'] as const satisfies readonly ConfigFormat[];

type FileOptions = Readonly<{ config?: string; format?: ConfigFormat }>;
type IssueOptions = FileOptions & Readonly<{ replace: boolean }>;
type RotateOptions = FileOptions & Readonly<{ confirm: boolean; overlapHours?: number }>;

/** `platform-auth nodes …`: the edge devices; runs on any machine, including the device itself. */
export function addNodesCommands(root: Command): void {
  const help = { needs: NEEDS_ADMIN_KEY, example: 'list' };
  const nodes = addCommand(root, 'nodes', 'Issue, rotate and revoke the keys of edge devices.', help);
  addIssue(nodes);
  const example = `--household ${EXAMPLES.householdId} --live --unused-for 30d`;
  addList(nodes, NODES, example, () => new DuplicateWatch())
    .option('--household <uuid>', 'only nodes of this household', parseUuid)
    .option('--search <text>', 'only nodes whose room/name contains this');
  addShow(nodes, NODES);
  addNodeUpdate(nodes);
  addRotate(nodes);
  addRevoke(nodes, NODES)
    .option('--household <uuid>', 'revoke the live nodes of this household', parseUuid)
    .option('--room <room>', 'revoke the live nodes of this room; with --household, only there');
  addEnrolmentCommands(nodes);
}

function addIssue(nodes: Command): void {
  const description = 'Issue the key of a new node, and write its pair into its configuration file or print it once.';
  const example = `--household ${EXAMPLES.householdId} --room ${EXAMPLES.room} --name ${EXAMPLES.name} --config /etc/node/config.json`;
  addNodeOptions(addRemote(nodes, 'issue', description, example))
    .option('--config <file>', 'write node_id and api_key into this file, and keep the rest of it')
    .addOption(createFormatOption())
    .option('--replace', 'replace the pair even if its node is not revoked', false)
    .action(async ({ config, format, replace, ...node }: IssueOptions, command: Command) => {
      const client = createClient(command);
      if (config === undefined) refuseNullOutput();
      const file = config === undefined ? undefined : await openConfigFile(config, format);
      if (file && !replace) await refuseToOverwrite(client, file);
      const newNode = toParameters(node) as NewNode;
      const newHousehold = await findNewHousehold(client, newNode.household_id);
      if (!file) {
        await showKey(command, await issueNode(client, newNode), format);
      } else {
        const { node_id } = await issueInto(client, file, newNode);
        const place = `${newNode.room}, ${newNode.name}`;
        const text = `Node ${node_id} (${place}) is issued; ${file.path} holds its node_id and api_key.`;
        print(command, { node_id, ...newNode, config: file.path }, () => text);
      }
      if (newHousehold === undefined) await warnOfDuplicate(client, newNode);
      else say(newHousehold);
    });
}

function createFormatOption(): Option {
  return new Option('--format <format>', 'of the file (default: by its name), or of the output').choices(
    CONFIG_FORMATS,
  );
}

function addNodeUpdate(nodes: Command): void {
  const description = 'Change the room, the name, the targets or the expiry of a node.';
  addUpdate(nodes, NODES, description, `${EXAMPLES.id} --room hall --targets recipes,ocr`)
    .option('--room <room>', 'the new room')
    .option('--name <name>', 'the new name')
    .option('--targets <list>', TARGETS, parseTargets)
    .option('--expires <moment>', 'ISO 8601, in how long (24h, 90d), or "never"', parseExpiry);
}

function addRotate(nodes: Command): void {
  const description = 'Rotate the key of a node, and write it into its configuration file or print it once.';
  addRemote(nodes, 'rotate <node_id>', description, `${EXAMPLES.id} --config /etc/node/config.json`)
    .option(
      '--config <file>',
      'the file that holds the pair; after an interruption the node still works, and this can be run again',
    )
    .addOption(createFormatOption())
    .option('--no-confirm', 'with --config: do not use the new key; both are valid until the node uses it')
    .addOption(createOverlapOption('without --config: '))
    .action(async (nodeId: string, { config, format, confirm, overlapHours }: RotateOptions, command: Command) => {
      if (config !== undefined && overlapHours !== undefined)
        command.error(
          'error: --overlap-hours and --config exclude each other: with a file, the use of the new key ends the old one',
        );
      const client = createClient(command);
      if (config === undefined) {
        refuseNullOutput();
        await showKey(command, await rotateKey<IssuedNodeResponse>(client, NODES, nodeId, overlapHours), format);
        return;
      }
      const file = await openConfigFile(config, format);
      const { oldKey, openUntil } = await rotateInto(client, file, nodeId, confirm);
      const outcome =
        oldKey === 'ended'
          ? 'The old one is refused from now on: a running node must read the file again.'
          : `The old one is valid until the node first uses the new one, and until ${String(openUntil)} at the latest.`;
      const result = { node_id: nodeId, config: file.path, old_key: oldKey, old_key_accepted_until: openUntil };
      print(command, result, () => `Node ${nodeId} has a new key; ${file.path} holds it. ${outcome}`);
    });
}

/** The parsers of YAML and JSON are loaded only when they are needed. */
async function openConfigFile(path: string, format: ConfigFormat | undefined) {
  const { ConfigFile } = await import('./node-config-file.js');
  return ConfigFile.open(path, format);
}

/** The only place that prints a node's key. */
async function showKey(command: Command, node: IssuedNodeResponse, format?: ConfigFormat): Promise<void> {
  const { node_id, api_key } = node;
  const remedy = `Node ${node_id} is live: rotate it, or revoke it.`;
  if (format) {
    const { setPair } = await import('./node-config-file.js');
    return writeKey(setPair('', format, { nodeId: node_id, apiKey: api_key }), remedy);
  }
  const use = `The key is shown only this once. The node sends it as\n  X-API-Key: ${node_id}:${api_key}`;
  await writeKey(
    formatResult(command, node, () => `${formatFields({ node_id, api_key })}\n\n${use}`),
    remedy,
  );
}
