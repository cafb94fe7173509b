import { Command, InvalidArgumentError } from 'commander';
import type { Api } from './api-types.js';
import { EXAMPLES } from '../../common/examples.js';
import { isId } from '../../common/ids.js';
import { isScopeList, SCOPES, type Scope } from '../../common/names.js';
import { addYes, createConfirm } from '../prompts.js';
import { withAdvice } from '../http-client.js';
import { formatFields, formatTable, replaceControlCharacters } from '../tables.js';
import { CommandFailedError, print } from '../output.js';
import { type AdminClient, createClient, describeRemote, readOutput } from './admin-client.js';
import {
  createOverlapOption,
  describeOldKey,
  rotate,
  addFilters,
  applyFilters,
  toMomentColour,
  type ListFilters,
} from './credential-commands.js';
import { parseExpiry, toExpiresAt, formatNeeds, NEEDS_ADMIN_KEY } from '../command-options.js';

const COLUMNS = ['name', 'scopes', 'operator_id', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'] as const;
const DROP = ['rotated_at', 'operator_id', 'expires_at', 'last_used_at', 'revoked_at'] as const;
const PATH = '/operators';
const SHOWN_ONCE =
  'The key is shown only this once. The operator sets it as ADMIN_API_KEY, or sends it as X-Admin-Key.';

type OperatorView = Api['OperatorResponse'];
type IssuedOperator = Api['IssuedOperatorResponse'];

/** `platform-auth operators …`: people and programs with an admin key of their own. */
export function createOperatorsCommand(): Command {
  const operators = new Command('operators')
    .description('Manage operators: admin keys with a name and scopes. An <operator> is an id or a name.')
    .addHelpText('after', formatNeeds(NEEDS_ADMIN_KEY, 'platform-auth operators list'));
  addFilters(
    describeRemote(
      operators.command('list'),
      'List operators, including revoked ones.',
      'operators list --live --unused-for 30d',
    ),
  ).action(async (filters: ListFilters, command: Command) => {
    const items = applyFilters(await createClient(command).list<OperatorView>(PATH), filters);
    const rows = items.map((item) => ({ ...item, scopes: item.scopes.join(' ') }));
    print(readOutput(command), { items }, () => formatTable(COLUMNS, rows, { drop: DROP, colour: toMomentColour }));
  });
  addAdd(operators);
  addRotate(operators);
  addRevoke(operators);
  return operators;
}

function addAdd(operators: Command): void {
  describeRemote(
    operators.command('add <name>'),
    'Add an operator, and print its key; it cannot be printed again.',
    `operators add ${EXAMPLES.operator} --scopes read,nodes --expires 90d`,
  )
    .requiredOption('--scopes <list>', `what it may do, separated by commas: ${SCOPES.join(', ')}`, parseScopes)
    .option('--expires <moment>', 'ISO 8601, or in how long: 24h, 90d (default: never)', parseExpiry)
    .action(async (name: string, { scopes, expires }: { scopes: Scope[]; expires?: string }, command: Command) => {
      const added = await withAdvice(
        createClient(command).post<IssuedOperator>(PATH, { name, scopes, expires_at: toExpiresAt(expires) }),
        'If `platform-auth operators list --live` shows it, its key is lost: rotate it. Otherwise run this again.',
      );
      print(readOutput(command), added, (it) => `${formatIssued(it)}\n\n${SHOWN_ONCE}`);
    });
}

function addRotate(operators: Command): void {
  describeRemote(
    operators.command('rotate <operator>'),
    'Make a new key and print it; it cannot be printed again.',
    `operators rotate ${EXAMPLES.operator}`,
  )
    .addOption(createOverlapOption())
    .action(async (operator: string, { overlapHours }: { overlapHours?: number }, command: Command) => {
      const { operator_id } = await findOperator(createClient(command), operator);
      const rotated = await rotate<IssuedOperator>(command, { path: PATH }, operator_id, overlapHours);
      const old = describeOldKey(rotated.previous_key_expires_at);
      print(readOutput(command), rotated, (it) => `${formatIssued(it)}\n\n${SHOWN_ONCE}\n${old}`);
    });
}

function addRevoke(operators: Command): void {
  describeRemote(
    addYes(operators.command('revoke <operator>')),
    'Revoke an operator permanently: the next call with its key is refused.',
    `operators revoke ${EXAMPLES.operator}`,
  ).action(async (operator: string, _options, command: Command) => {
    const client = createClient(command);
    const { operator_id, name } = await findOperator(client, operator);
    await createConfirm(command)(`This revokes the operator ${replaceControlCharacters(name)} permanently.`);
    await client.delete(`${PATH}/${encodeURIComponent(operator_id)}`);
    print(readOutput(command), { operator_id, name, revoked: true }, () => `Operator ${name} is revoked.`);
  });
}

/** @throws {CommandFailedError} when no operator has the id, and when none that is not revoked has the name */
async function findOperator(client: AdminClient, operator: string): Promise<OperatorView> {
  if (isId(operator)) return client.get<OperatorView>(`${PATH}/${encodeURIComponent(operator)}`);
  const found = (await client.list<OperatorView>(PATH, { name: operator })).find((each) => each.revoked_at === null);
  if (found) return found;
  throw new CommandFailedError(
    `No operator that is not revoked has the name ${operator}. \`platform-auth operators list\` shows every operator.`,
    'not_found',
  );
}

function parseScopes(text: string): Scope[] {
  const scopes = text.split(',').map((each) => each.trim());
  if (!isScopeList(scopes))
    throw new InvalidArgumentError(`It must be one or more of these, each once: ${SCOPES.join(',')}.`);
  return scopes;
}

function formatIssued({ operator_id, name, api_key, scopes, expires_at }: IssuedOperator): string {
  const fields = { operator_id, name, api_key, scopes: scopes.join(' ') };
  return formatFields({ ...fields, ...(expires_at !== null && { expires_at }) });
}
