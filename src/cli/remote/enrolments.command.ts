import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, type Command } from 'commander';
import type { IssuedEnrolmentResponse, NodeEnrolmentResponse } from '../../api/admin/enrolments.admin.controller.js';
import { EXAMPLES } from '../../foundation/common/names.js';
import { parseDuration, parseTargets, parseUuid, TARGETS } from '../command-options.js';
import { isTransient, joinPath } from '../http-client.js';
import { CommandFailedError, print, say } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { findNewHousehold, type NewNode } from './node-keys.js';
import { addRemote, createClient, readOptions, toParameters } from './remote-command.js';

const ENROLMENTS = '/enrolments';
const POLL_INTERVAL_MS = 2_000;
const CLEAR_LINE = '\r\u001b[K';
const MS_PER_MINUTE = 60_000;
const COLUMNS = ['enrolment_id', 'state', 'household_id', 'room', 'name', 'targets', 'expires_at', 'node_id'];
const DROP = ['household_id', 'targets', 'expires_at', 'node_id'];

/** `platform-auth nodes enrol`, and the list of its codes, with which devices fetch their own keys. */
export function addEnrolmentCommands(nodes: Command): void {
  addEnrol(nodes);
  addRemote(nodes, 'enrolments', 'List enrolments, including those that have ended.', '--open')
    .list(() => ({ path: ENROLMENTS, columns: COLUMNS, drop: DROP }))
    .option('--open', 'only those whose code can be used now');
  const description = 'Cancel an enrolment: its code is unknown from now on.';
  addRemote(nodes, 'cancel-enrolment <enrolment_id>', description, EXAMPLES.id).answer(
    async (client, id: string) => {
      await client.delete(joinPath(ENROLMENTS, id));
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
      const newNode = toParameters(asked) as NewNode;
      const newHousehold = await findNewHousehold(client, newNode.household_id);
      const advice = 'Run this again: a code that is not shown cannot be used.';
      const issued = await client.post<IssuedEnrolmentResponse>(ENROLMENTS, newNode, advice);
      const text = await describeCode(issued);
      print(command, issued, () => text);
      if (newHousehold !== undefined) say(newHousehold);
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

/**
 * @returns what to print when a device has used the code
 * @throws {CommandFailedError} when the code has ended unused
 */
async function awaitNode(client: AdminClient, issued: NodeEnrolmentResponse) {
  const path = joinPath(ENROLMENTS, issued.enrolment_id);
  let enrolment = issued;
  for (let isFirst = true; enrolment.state === 'open'; isFirst = false) {
    showTimeLeft(issued.expires_at, isFirst);
    await sleep(POLL_INTERVAL_MS);
    try {
      enrolment = await client.get<NodeEnrolmentResponse>(path);
    } catch (error) {
      if (!isTransient(error)) throw error;
      say(error.message);
    }
  }
  if (process.stderr.isTTY) process.stderr.write(CLEAR_LINE);
  const { state, node_id, room, name } = enrolment;
  if (state === 'used') return () => `Node ${String(node_id)} (${room}, ${name}) has enrolled.`;
  throw new CommandFailedError(`No device has used the code: it is ${state}. Run this again.`, `enrolment_${state}`);
}

/** Shows how long the code is still valid: on a terminal again and again, otherwise once. */
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

/** The fields of a new node, whether an operator issues it or a device enrols. */
export function addNodeOptions(command: Command): Command {
  return command
    .requiredOption('--household <uuid>', 'the household of the node', parseUuid)
    .requiredOption('--room <room>', 'the room of the node')
    .requiredOption('--name <name>', 'the name of the node')
    .option('--targets <list>', `${TARGETS} (default: NODE_TARGETS of the service)`, parseTargets);
}
