import { Command, Option } from 'commander';
import { ConfigFile } from './config-file.js';
import { CONFIG_FORMATS, withPair, type ConfigFormat } from './config-format.js';
import { addRevoke, addShow, EXAMPLE_ID, overlapOption, rotate } from './credential-commands.js';
import { refuseToOverwrite, register, registerInto, rotateInto, type IssuedNode, type NodeView } from './node-keys.js';
import { clientOf, outputOf, remote, uuid } from './remote-command.js';
import { fields, print, table } from '../terminal.js';

const COLUMNS = ['node_id', 'household_id', 'room', 'name', 'last_used_at', 'revoked_at'] as const;
const NODES = { group: 'nodes', name: 'Node', idField: 'node_id', path: '/nodes' };

interface RegisterOptions {
  readonly household: string;
  readonly room: string;
  readonly name: string;
  readonly config?: string;
  readonly format?: ConfigFormat;
  readonly replace: boolean;
}

interface RotateOptions {
  readonly config?: string;
  readonly format?: ConfigFormat;
  readonly confirm: boolean;
  readonly overlapHours?: number;
}

/** `platform-auth nodes …`: the edge devices, from any machine, also from the device itself. */
export function nodesCommand(): Command {
  const nodes = new Command('nodes')
    .description('Register edge devices, and look after them.')
    .addHelpText('after', '\nExample:\n  platform-auth nodes list');
  addRegister(nodes);
  remote(
    nodes.command('list'),
    'List nodes, revoked ones too.',
    'nodes list --household 5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10',
  )
    .option('--household <uuid>', 'only nodes of this household', uuid)
    .action(async ({ household }: { household?: string }, command: Command) => {
      const items = await clientOf(command).list<NodeView>(NODES.path, { household_id: household });
      print(outputOf(command), { items }, () => table(COLUMNS, items));
    });
  addShow(nodes, NODES);
  addRotate(nodes);
  addRevoke(nodes, NODES);
  return nodes;
}

function formatOption(description: string): Option {
  return new Option('--format <format>', description).choices(CONFIG_FORMATS);
}

function addRegister(nodes: Command): void {
  remote(
    nodes.command('register'),
    'Register a node, and put its pair into its configuration file or show it once.',
    'nodes register --household 5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10 --room kitchen --name speaker --config /etc/node/config.json',
  )
    .requiredOption('--household <uuid>', 'that it belongs to', uuid)
    .requiredOption('--room <room>', 'that it stands in')
    .requiredOption('--name <name>', 'that people call it')
    .option('--config <file>', 'to write node_id and api_key into; all else in it stays')
    .addOption(formatOption('of the file (default: by its name), or of what is shown'))
    .option('--replace', 'even if the file holds the pair of a node that is not revoked', false)
    .action(async (options: RegisterOptions, command: Command) => {
      const { household, room, name, config, format } = options;
      const client = clientOf(command);
      const file = config === undefined ? undefined : ConfigFile.open(config, format);
      if (file && !options.replace) await refuseToOverwrite(client, file);
      const registration = { household_id: household, room, name };
      if (!file) {
        show(command, await register(client, registration), format);
        return;
      }
      const { node_id } = await registerInto(client, file, registration);
      const text = `Node ${node_id} (${room}, ${name}) is registered; ${file.path} holds its node_id and api_key.`;
      print(outputOf(command), { node_id, ...registration, config: file.path }, () => text);
    });
}

function addRotate(nodes: Command): void {
  remote(
    nodes.command('rotate <node_id>'),
    'Give a node a new key, and put it into its configuration file or show it once.',
    `nodes rotate ${EXAMPLE_ID} --config /etc/node/config.json`,
  )
    .option('--config <file>', 'that holds the pair: the node works whenever this is interrupted; run it again then')
    .addOption(formatOption('of the file (default: by its name), or of what is shown'))
    .option('--no-confirm', 'with --config: let the node use the new key first; until then both are good')
    .addOption(overlapOption('without --config: '))
    .action(async (nodeId: string, options: RotateOptions, command: Command) => {
      const { config, format, confirm, overlapHours } = options;
      if (config !== undefined && overlapHours !== undefined)
        command.error('error: --overlap-hours and --config do not go together: the file decides when the old key ends');
      if (config === undefined) {
        show(command, await rotate<IssuedNode>(command, NODES, nodeId, overlapHours), format);
        return;
      }
      const file = ConfigFile.open(config, format);
      const { oldKey, openUntil } = await rotateInto(clientOf(command), file, nodeId, confirm);
      const fate =
        oldKey === 'ended'
          ? 'The old one is refused from now on: a node that is running must read the file again.'
          : `The old one is good until the node first uses the new one, and until ${String(openUntil)} at the latest.`;
      const result = { node_id: nodeId, config: file.path, old_key: oldKey, old_key_accepted_until: openUntil };
      print(outputOf(command), result, () => `Node ${nodeId} has a new key; ${file.path} holds it. ${fate}`);
    });
}

/** The one place where a key is shown. */
function show(command: Command, node: IssuedNode, format?: ConfigFormat): void {
  const pair = { nodeId: node.node_id, apiKey: node.api_key };
  if (format) process.stdout.write(withPair('', format, pair));
  else
    print(outputOf(command), node, () =>
      [
        fields({ node_id: node.node_id, api_key: node.api_key }),
        '',
        'The key is shown this once. The node sends it as',
        `  X-API-Key: ${node.node_id}:${node.api_key}`,
      ].join('\n'),
    );
}
