import { Command, Option } from 'commander';
import { EXAMPLES } from '../../common/examples.js';
import { ConfigFile, CONFIG_FORMATS, setPair, type ConfigFormat } from './node-config-file.js';
import {
  addFilters,
  applyFilters,
  toMomentColour,
  type ListFilters,
  addRevoke,
  addShow,
  createOverlapOption,
  rotate,
} from './credential-commands.js';
import { refuseToOverwrite, register, registerInto, rotateInto, type IssuedNode, type NodeView } from './node-keys.js';
import { parseExpiry, toExpiresAt, formatNeeds, NEEDS_ADMIN_KEY, parseUuid } from '../command-options.js';
import { createClient, readOutput, describeRemote } from './admin-client.js';
import { formatFields, formatTable } from '../tables.js';
import { print } from '../output.js';

const COLUMNS = ['node_id', 'household_id', 'room', 'name', 'last_used_at', 'expires_at', 'revoked_at'] as const;
const DROP = ['household_id', 'expires_at', 'revoked_at', 'last_used_at'] as const;
const NODES = { group: 'nodes', kind: 'node', name: 'Node', idField: 'node_id', path: '/nodes' } as const;

interface RegisterOptions {
  readonly household: string;
  readonly room: string;
  readonly name: string;
  readonly config?: string;
  readonly format?: ConfigFormat;
  readonly replace: boolean;
}

interface UpdateOptions {
  readonly room?: string;
  readonly name?: string;
  readonly expires?: string;
}

interface RotateOptions {
  readonly config?: string;
  readonly format?: ConfigFormat;
  readonly confirm: boolean;
  readonly overlapHours?: number;
}

/** `platform-auth nodes …`: the edge devices; runs on any machine, including the device itself. */
export function createNodesCommand(): Command {
  const nodes = new Command('nodes')
    .description('Register and manage edge devices.')
    .addHelpText('after', formatNeeds(NEEDS_ADMIN_KEY, 'platform-auth nodes list'));
  addRegister(nodes);
  addFilters(
    describeRemote(
      nodes.command('list'),
      'List nodes, including revoked ones.',
      `nodes list --household ${EXAMPLES.householdId} --live --unused-for 30d`,
    ),
  )
    .option('--household <uuid>', 'only nodes of this household', parseUuid)
    .action(async ({ household, ...filters }: ListFilters & { household?: string }, command: Command) => {
      const all = await createClient(command).list<NodeView>(NODES.path, { household_id: household });
      const items = applyFilters(all, filters);
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items, { drop: DROP, colour: toMomentColour }));
    });
  addShow(nodes, NODES);
  addUpdate(nodes);
  addRotate(nodes);
  addRevoke(nodes, NODES);
  return nodes;
}

function createFormatOption(description: string): Option {
  return new Option('--format <format>', description).choices(CONFIG_FORMATS);
}

function addRegister(nodes: Command): void {
  describeRemote(
    nodes.command('register'),
    'Register a node, and write its pair into its configuration file or print it once.',
    `nodes register --household ${EXAMPLES.householdId} --room ${EXAMPLES.room} --name ${EXAMPLES.name} --config /etc/node/config.json`,
  )
    .requiredOption('--household <uuid>', 'the household of the node', parseUuid)
    .requiredOption('--room <room>', 'the room of the node')
    .requiredOption('--name <name>', 'the name of the node')
    .option('--config <file>', 'write node_id and api_key into this file, and keep the rest of it')
    .addOption(createFormatOption('of the file (default: by its name), or of the output'))
    .option('--replace', 'replace the pair even if its node is not revoked', false)
    .action(async (options: RegisterOptions, command: Command) => {
      const { household, room, name, config, format } = options;
      const client = createClient(command);
      const file = config === undefined ? undefined : ConfigFile.open(config, format);
      if (file && !options.replace) await refuseToOverwrite(client, file);
      const registration = { household_id: household, room, name };
      if (!file) {
        show(command, await register(client, registration), format);
        return;
      }
      const { node_id } = await registerInto(client, file, registration);
      const text = `Node ${node_id} (${room}, ${name}) is registered; ${file.path} holds its node_id and api_key.`;
      print(readOutput(command), { node_id, ...registration, config: file.path }, () => text);
    });
}

function addUpdate(nodes: Command): void {
  describeRemote(
    nodes.command('update <node_id>'),
    'Change the room, the name or the expiry of a node.',
    `nodes update ${EXAMPLES.id} --room hall --expires never`,
  )
    .option('--room <room>', 'the new room')
    .option('--name <name>', 'the new name')
    .option('--expires <moment>', 'ISO 8601, in how long (24h, 90d), or "never"', parseExpiry)
    .action(async (nodeId: string, options: UpdateOptions, command: Command) => {
      const { room, name, expires } = options;
      const change = { room, name, expires_at: toExpiresAt(expires) };
      if (Object.values(change).every((value) => value === undefined))
        command.error('error: nothing to change: give --room, --name or --expires');
      const node = await createClient(command).patch<NodeView>(`${NODES.path}/${encodeURIComponent(nodeId)}`, change);
      print(readOutput(command), node, formatFields);
    });
}

function addRotate(nodes: Command): void {
  describeRemote(
    nodes.command('rotate <node_id>'),
    'Rotate the key of a node, and write it into its configuration file or print it once.',
    `nodes rotate ${EXAMPLES.id} --config /etc/node/config.json`,
  )
    .option(
      '--config <file>',
      'the file that holds the pair; after an interruption the node still works, and this can be run again',
    )
    .addOption(createFormatOption('of the file (default: by its name), or of the output'))
    .option('--no-confirm', 'with --config: do not use the new key; both are valid until the node uses it')
    .addOption(createOverlapOption('without --config: '))
    .action(async (nodeId: string, options: RotateOptions, command: Command) => {
      const { config, format, confirm, overlapHours } = options;
      if (config !== undefined && overlapHours !== undefined)
        command.error(
          'error: --overlap-hours and --config exclude each other: with a file, the use of the new key ends the old one',
        );
      if (config === undefined) {
        show(command, await rotate<IssuedNode>(command, NODES, nodeId, overlapHours), format);
        return;
      }
      const file = ConfigFile.open(config, format);
      const { oldKey, openUntil } = await rotateInto(createClient(command), file, nodeId, confirm);
      const outcome =
        oldKey === 'ended'
          ? 'The old one is refused from now on: a running node must read the file again.'
          : `The old one is valid until the node first uses the new one, and until ${String(openUntil)} at the latest.`;
      const result = { node_id: nodeId, config: file.path, old_key: oldKey, old_key_accepted_until: openUntil };
      print(readOutput(command), result, () => `Node ${nodeId} has a new key; ${file.path} holds it. ${outcome}`);
    });
}

/** The only place that prints a node's key. */
function show(command: Command, node: IssuedNode, format?: ConfigFormat): void {
  const pair = { nodeId: node.node_id, apiKey: node.api_key };
  if (format) process.stdout.write(setPair('', format, pair));
  else
    print(readOutput(command), node, () =>
      [
        formatFields({ node_id: node.node_id, api_key: node.api_key }),
        '',
        'The key is shown only this once. The node sends it as',
        `  X-API-Key: ${node.node_id}:${node.api_key}`,
      ].join('\n'),
    );
}
