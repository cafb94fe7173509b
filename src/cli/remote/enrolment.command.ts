// `platform-auth nodes enrol` and its companions: a code for a device that fetches its own key.
import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, type Command } from 'commander';
import { EXAMPLES } from '../../common/names.js';
import { parseDuration, parseTargets, parseUuid, TARGETS, toRestriction } from '../command-options.js';
import { isPassing } from '../http-client.js';
import { CommandFailedError, print, say } from '../terminal.js';
import { addRemote, createClient, readOptions, type AdminClient } from './admin-client.js';
import type { IssuedEnrolmentResponse, NodeEnrolmentResponse } from '../../admin/enrolments.admin.controller.js';
import { addLimits, printList, toQuery } from './list-command.js';

const PATH = '/nodes/enrolments';
const POLL_INTERVAL_MS = 2_000;
const MS_PER_MINUTE = 60_000;
const COLUMNS = ['enrolment_id', 'state', 'household_id', 'room', 'name', 'targets', 'expires_at', 'node_id'];
const DROP = ['household_id', 'targets', 'expires_at', 'node_id'];

/** What a node is registered with, at once or when a device enrols. */
export interface NodeOptions {
  readonly household: string;
  readonly room: string;
  readonly name: string;
  readonly targets?: ReturnType<typeof parseTargets>;
}

export function addNodeOptions(command: Command): Command {
  return command
    .requiredOption('--household <uuid>', 'the household of the node', parseUuid)
    .requiredOption('--room <room>', 'the room of the node')
    .requiredOption('--name <name>', 'the name of the node')
    .option('--targets <list>', `${TARGETS} (default: NODE_TARGETS of the service)`, parseTargets);
}

export function toRegistration({ household, room, name, targets }: NodeOptions) {
  return { household_id: household, room, name, targets: toRestriction(targets) };
}

interface EnrolOptions extends NodeOptions {
  readonly expiresIn?: number;
  readonly wait: boolean;
}

export function addEnrolmentCommands(nodes: Command): void {
  addEnrol(nodes);
  const list = addRemote(nodes, 'enrolments', 'List enrolments, including those that have ended.', '--open');
  addLimits(list)
    .option('--open', 'only those whose code can be used now')
    .action(async (options: object, command: Command) =>
      printList(command, { path: PATH, query: toQuery(options, { open: 'open' }), columns: COLUMNS, drop: DROP }),
    );
  const description = 'Cancel an enrolment: its code is unknown from now on.';
  addRemote(nodes, 'cancel-enrolment <enrolment_id>', description, EXAMPLES.id).answer(
    async (client, id: string) => {
      await client.delete(`${PATH}/${encodeURIComponent(id)}`);
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
    .action(async ({ expiresIn, wait, ...node }: EnrolOptions, command: Command) => {
      const client = createClient(command);
      const asked = { ...toRegistration(node), expires_in_minutes: expiresIn };
      const advice = 'Run this again: a code that is not shown cannot be used.';
      const issued = await client.post<IssuedEnrolmentResponse>(PATH, asked, advice);
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
async function awaitNode(client: AdminClient, { enrolment_id, room, name, expires_at }: NodeEnrolmentResponse) {
  const countDown = new CountDown(Date.parse(expires_at));
  let enrolment: NodeEnrolmentResponse | undefined;
  while (enrolment === undefined || enrolment.state === 'open') {
    countDown.show();
    await sleep(POLL_INTERVAL_MS);
    try {
      enrolment = await client.get<NodeEnrolmentResponse>(`${PATH}/${encodeURIComponent(enrolment_id)}`);
    } catch (error) {
      if (!isPassing(error)) throw error;
      say(error.message);
    }
  }
  countDown.clear();
  const { state, node_id } = enrolment;
  if (state === 'used') return () => `Node ${String(node_id)} (${room}, ${name}) has enrolled.`;
  throw new CommandFailedError(`No device has used the code: it is ${state}. Run this again.`, `enrolment_${state}`);
}

/** Shows on standard error how long the code can still be used: on a terminal anew each time, else once. */
class CountDown {
  private hasSaid = false;

  constructor(
    private readonly endsAt: number,
    private readonly stream: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> = process.stderr,
  ) {}

  show(): void {
    const seconds = Math.max(0, Math.ceil((this.endsAt - Date.now()) / 1_000));
    const left = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
    if (this.stream.isTTY) this.stream.write(`\r\u001b[KWaiting for the device: ${left} left `);
    else if (!this.hasSaid) this.stream.write(`Waiting for the device: ${left} left\n`);
    this.hasSaid = true;
  }

  clear(): void {
    if (this.stream.isTTY) this.stream.write('\r\u001b[K');
  }
}

function parseMinutes(text: string): number {
  const minutes = parseDuration(text) / MS_PER_MINUTE;
  if (minutes < 1 || minutes > 1_440) throw new InvalidArgumentError('It must be from 1m to 24h.');
  return minutes;
}
