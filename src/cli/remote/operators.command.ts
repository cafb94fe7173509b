import { InvalidArgumentError, type Command } from 'commander';
import type { PasskeysResponse } from '../../api/account/passkeys.controller.js';
import type { IssuedOperatorResponse, OperatorResponse } from '../../api/admin/operators.admin.controller.js';
import { isId } from '../../foundation/common/ids.js';
import { EXAMPLES, isOperatorScopeList, OPERATOR_SCOPES, type OperatorScope } from '../../foundation/common/names.js';
import { joinPath } from '../http-client.js';
import { addCommand, NEEDS_ADMIN_KEY, parseExpiry } from '../command-options.js';
import { formatTable, replaceControlCharacters } from '../tables.js';
import { addYes, CommandFailedError, createConfirm } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { addList, addRotate, addUpdate, adviseOnLost, formatIssued, type IssuedType } from './credentials.command.js';
import { addRemote, toParameters } from './remote-command.js';

const OPERATORS: IssuedType = {
  type: 'operator',
  name: 'Operator',
  idField: 'operator_id',
  path: '/operators',
  columns: ['name', 'scopes', 'operator_id', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'],
  drop: ['rotated_at', 'operator_id', 'expires_at', 'last_used_at', 'revoked_at'],
  fields: ['operator_id', 'name', 'api_key', 'scopes'],
  shownOnce: 'The key is shown only this once. The operator sets it as ADMIN_API_KEY, or sends it as X-Admin-Key.',
  named: { argument: 'operator', findId: async (client, name) => (await findOperator(client, name)).operator_id },
};

/** `platform-auth operators …`: people and programs with an admin key of their own. */
export function addOperatorsCommands(root: Command): void {
  const summary = 'Manage operators: admin keys with a name and scopes. An <operator> is an id or a name.';
  const operators = addCommand(root, 'operators', summary, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(operators, OPERATORS, '--live --unused-for 30d');
  const description = 'Issue an admin key for an operator, and print it; it cannot be printed again.';
  addRemote(operators, 'issue <name>', description, `${EXAMPLES.operator} --scopes read,nodes --expires 90d`)
    .requiredOption(
      '--scopes <list>',
      `what it may do, separated by commas: ${OPERATOR_SCOPES.join(', ')}`,
      parseScopes,
    )
    .option('--expires <moment>', 'ISO 8601, or in how long: 24h, 90d (default: never)', parseExpiry)
    .answerKey(
      async (client, name: string, options: Readonly<Record<string, unknown>>) =>
        client.post<IssuedOperatorResponse>(
          OPERATORS.path,
          { name, ...toParameters(options) },
          'If `platform-auth operators list --live` shows it, its key is lost: rotate it. Otherwise run this again.',
        ),
      (issued) => formatIssued(OPERATORS, issued),
      (issued) => adviseOnLost(OPERATORS, issued),
    );
  const change = 'Change the scopes or the expiry of an operator; its key stays.';
  addUpdate(operators, OPERATORS, change, `${EXAMPLES.operator} --scopes read,users --expires never`)
    .option('--scopes <list>', 'all that it may do from now on, separated by commas', parseScopes)
    .option('--expires <moment>', 'ISO 8601, in how long (24h, 90d), or "never"', parseExpiry);
  addRotate(operators, OPERATORS, EXAMPLES.operator);
  const revocation = 'Revoke an operator permanently: the next call with its key is refused.';
  addYes(addRemote(operators, 'revoke <operator>', revocation, EXAMPLES.operator)).answer(
    async (client, operator: string, _options: unknown, command: Command) => {
      const { operator_id, name } = await findOperator(client, operator);
      await createConfirm(command)(`This revokes the operator ${replaceControlCharacters(name)} permanently.`);
      await client.delete(joinPath(OPERATORS.path, operator_id));
      return { operator_id, name, revoked: true };
    },
    ({ name }) => `Operator ${name} is revoked.`,
  );
  addPasskeys(operators);
}

function addPasskeys(operators: Command): void {
  const listing = 'List the passkeys that the console asks an operator for beside the key.';
  addRemote(operators, 'passkeys <operator>', listing, EXAMPLES.operator).answer(
    async (client, operator: string) =>
      client.get<PasskeysResponse>(toPasskeys((await findOperator(client, operator)).operator_id)),
    ({ items }) =>
      formatTable(['name', 'id', 'is_synced', 'created_at', 'last_used_at'], items, { drop: ['is_synced'] }),
  );
  const removal = 'Remove a passkey that an operator has lost. Sessions of the console that began with it end.';
  const example = `${EXAMPLES.operator} ${EXAMPLES.id}`;
  addYes(addRemote(operators, 'remove-passkey <operator> <passkey_id>', removal, example)).answer(
    async (client, operator: string, passkey_id: string, _options: unknown, command: Command) => {
      const { operator_id, name } = await findOperator(client, operator);
      const without = 'Without any passkey, the key alone opens the console.';
      await createConfirm(command)(`This removes a passkey of ${replaceControlCharacters(name)}. ${without}`);
      await client.delete(joinPath(toPasskeys(operator_id), passkey_id));
      return { operator_id, passkey_id, name, removed: true };
    },
    ({ name }) => `The passkey of ${name} is removed.`,
  );
}

const toPasskeys = (id: string): string => joinPath(OPERATORS.path, id, 'passkeys');

/** @throws {CommandFailedError} when no operator has the id, and when none that is not revoked has the name */
async function findOperator(client: AdminClient, operator: string): Promise<OperatorResponse> {
  const { path } = OPERATORS;
  if (isId(operator)) return client.get(joinPath(path, operator));
  const named = await client.list<OperatorResponse>(path, { name: operator });
  const found = named.find(({ revoked_at }) => revoked_at === null);
  if (found) return found;
  throw new CommandFailedError(
    `No operator that is not revoked has the name ${operator}. \`platform-auth operators list\` shows every operator.`,
    'not_found',
  );
}

function parseScopes(text: string): OperatorScope[] {
  const scopes = text.split(',').map((each) => each.trim());
  if (!isOperatorScopeList(scopes))
    throw new InvalidArgumentError(`It must be one or more of these, each once: ${OPERATOR_SCOPES.join(',')}.`);
  return scopes;
}
