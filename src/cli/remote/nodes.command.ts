import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { EXAMPLES } from '../../foundation/common/names.js';
import {
  addCommand,
  NEEDS_ADMIN_KEY,
  parseDuration,
  parseExpiry,
  parseTargets,
  parseUuid,
  TARGETS,
} from '../command-options.js';
import { isPassing } from '../http-client.js';
import { formatFields } from '../tables.js';
import { CommandFailedError, formatResult, print, refuseNullOutput, say, writeKey } from '../terminal.js';
import type { IssuedEnrolmentResponse, NodeEnrolmentResponse } from '../../api/admin/enrolments.admin.controller.js';
import type { IssuedNodeResponse } from '../../api/admin/nodes.admin.controller.js';
import type { AdminClient } from './admin-client.js';
import {
  addList,
  addRevoke,
  addShow,
  addUpdate,
  createOverlapOption,
  rotateKey,
  type CredentialType,
} from './credentials.command.js';
import type { ConfigFormat } from './node-config-file.js';
import {
  DuplicateWatch,
  refuseToOverwrite,
  issueNode,
  warnOfDuplicate,
  issueInto,
  rotateInto,
  type NewNode,
} from './node-keys.js';
import { addRemote, createClient, readOptions, toParameters } from './remote-command.js';

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
    .alias('register')
    .option('--config <file>', 'write node_id and api_key into this file, and keep the rest of it')
    .addOption(createFormatOption())
    .option('--replace', 'replace the pair even if its node is not revoked', false)
    .action(async ({ config, format, replace, ...node }: IssueOptions, command: Command) => {
      const client = createClient(command);
      if (config === undefined) refuseNullOutput();
      const file = config === undefined ? undefined : await openConfigFile(config, format);
      if (file && !replace) await refuseToOverwrite(client, file);
      const newNode = toParameters(node) as NewNode;
      if (!file) {
        await showKey(command, await issueNode(client, newNode), format);
      } else {
        const { node_id } = await issueInto(client, file, newNode);
        const place = `${newNode.room}, ${newNode.name}`;
        const text = `Node ${node_id} (${place}) is registered; ${file.path} holds its node_id and api_key.`;
        print(command, { node_id, ...newNode, config: file.path }, () => text);
      }
      await warnOfDuplicate(client, newNode);
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

/** The parsers of YAML and JSON are loaded only when there is a file. */
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

// A code for a device that fetches its own key.

const ENROLMENTS = '/enrolments';
const POLL_INTERVAL_MS = 2_000;
const CLEAR_LINE = '\r\u001b[K';
const MS_PER_MINUTE = 60_000;
const COLUMNS = ['enrolment_id', 'state', 'household_id', 'room', 'name', 'targets', 'expires_at', 'node_id'];
const DROP = ['household_id', 'targets', 'expires_at', 'node_id'];

/** What a new node is: issued at once, or when a device enrols. */
function addNodeOptions(command: Command): Command {
  return command
    .requiredOption('--household <uuid>', 'the household of the node', parseUuid)
    .requiredOption('--room <room>', 'the room of the node')
    .requiredOption('--name <name>', 'the name of the node')
    .option('--targets <list>', `${TARGETS} (default: NODE_TARGETS of the service)`, parseTargets);
}

function addEnrolmentCommands(nodes: Command): void {
  addEnrol(nodes);
  addRemote(nodes, 'enrolments', 'List enrolments, including those that have ended.', '--open')
    .list(() => ({ path: ENROLMENTS, columns: COLUMNS, drop: DROP }))
    .option('--open', 'only those whose code can be used now');
  const description = 'Cancel an enrolment: its code is unknown from now on.';
  addRemote(nodes, 'cancel-enrolment <enrolment_id>', description, EXAMPLES.id).answer(
    async (client, id: string) => {
      await client.delete(`${ENROLMENTS}/${encodeURIComponent(id)}`);
      return { enrolment_id: id, cancelled: true };
    },
    (_result, id) => `Enrolment ${id} is cancelled.`,
  );
}

function addEnrol(nodes: Command): void {
  const description =
    'Print a code, also as a QR code, with which a device fetches its own key, and wait until it has.';
  const example = `--household ${EXAMPLES.householdId} --room ${EXAMPLES.room} --name ${EXAMPLES.name}`;
  addNodeOptions(addRemote(nodes, 'enrol', description, example))
    .option('--expires-in <duration>', 'for how long the code can be used: 10m, 2h (default: 10m)', parseMinutes)
    .option('--no-wait', 'end when the code is printed; with --json always')
    .action(async ({ wait, ...asked }: { wait: boolean }, command: Command) => {
      const client = createClient(command);
      const advice = 'Run this again: a code that is not shown cannot be used.';
      const issued = await client.post<IssuedEnrolmentResponse>(ENROLMENTS, toParameters(asked), advice);
      const text = await describeCode(issued);
      print(command, issued, () => text);
      if (wait && !readOptions(command).json) print(command, {}, await awaitNode(client, issued));
    });
}

async function describeCode({ code, expires_at, enrolment_id }: IssuedEnrolmentResponse): Promise<string> {
  const { default: qrcode } = await import('qrcode-generator');
  const drawing = qrcode(0, 'M');
  drawing.addData(code);
  drawing.make();
  const cancel = `platform-auth nodes cancel-enrolment ${enrolment_id}`;
  return `${drawing.createASCII()}\n\n  ${code}\n\nGive the code to the device before ${expires_at}. To cancel it: ${cancel}`;
}

/** @returns what to print when the device has come @throws {CommandFailedError} when the code has ended without it */
async function awaitNode(client: AdminClient, issued: NodeEnrolmentResponse) {
  const path = `${ENROLMENTS}/${encodeURIComponent(issued.enrolment_id)}`;
  let enrolment = issued;
  for (let isFirst = true; enrolment.state === 'open'; isFirst = false) {
    showTimeLeft(issued.expires_at, isFirst);
    await sleep(POLL_INTERVAL_MS);
    try {
      enrolment = await client.get<NodeEnrolmentResponse>(path);
    } catch (error) {
      if (!isPassing(error)) throw error;
      say(error.message);
    }
  }
  if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
  const { state, node_id, room, name } = enrolment;
  if (state === 'used') return () => `Node ${String(node_id)} (${room}, ${name}) has enrolled.`;
  throw new CommandFailedError(`No device has used the code: it is ${state}. Run this again.`, `enrolment_${state}`);
}

/** Shows on standard error how long the code can still be used: on a terminal anew each time, else once. */
function showTimeLeft(expiresAt: string, isFirst: boolean): void {
  const { isTTY } = process.stderr;
  const seconds = Math.max(0, Math.ceil((Date.parse(expiresAt) - Date.now()) / 1_000));
  const left = `Waiting for the device: ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`;
  if (isTTY) process.stderr.write(`${CLEAR_LINE}${left} `);
  else if (isFirst) say(left);
}

function parseMinutes(text: string): number {
  const minutes = parseDuration(text) / MS_PER_MINUTE;
  if (minutes < 1 || minutes > 1_440) throw new InvalidArgumentError('It must be from 1m to 24h.');
  return minutes;
}
