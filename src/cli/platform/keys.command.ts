// `platform-auth keys`: the keys that sign access tokens under ES256; see docs/operations/keys.md.
import type { Command } from 'commander';
import { COMMAND_LINE } from '../../access/actor.js';
import { readVariables } from '../../config/environment.js';
import type { SigningKeyOperations } from '../../signing-keys/signing-key-rotation.js';
import { addCommand, DATABASE_EXAMPLE, NEEDS_DATABASE } from '../command-options.js';
import { print, addYes, createConfirm } from '../terminal.js';
import { formatTable } from '../tables.js';

const COLUMNS = ['kid', 'state', 'created_at', 'activated_at', 'retired_at', 'revoked_at'] as const;
const HELP = { needs: NEEDS_DATABASE, variables: DATABASE_EXAMPLE };
const KID = '<kid>';
const EXAMPLE_KID = 'sT3RrX8h2V0';

export function addKeysCommands(root: Command): void {
  const description = 'Manage the keys that sign access tokens under ES256. "keys list" shows each <kid>.';
  const keys = addCommand(root, 'keys', description, { ...HELP, example: 'list' });
  addKeyCommand(keys, 'list', 'List the signing keys.', () => Promise.resolve());
  addKeyCommand(
    keys,
    'rotate',
    'Sign with the next key. Tokens of the present one stay valid until they expire.',
    (operations) => operations.rotateActiveKey(COMMAND_LINE),
  );
  addKeyCommand(
    keys,
    `retire ${KID}`,
    'Stop signing with this key. Its tokens stay valid until they expire.',
    (operations, kid) => operations.retireKey(kid, COMMAND_LINE),
  );
  addYes(
    addKeyCommand(
      keys,
      `revoke ${KID}`,
      'Refuse all tokens of this key at once, because it was stolen. Their users refresh, and go on.',
      (operations, kid) => operations.revokeKey(kid, COMMAND_LINE),
    ),
  ).hook('preAction', async (command) =>
    createConfirm(command)(`All access tokens of key ${command.args[0] ?? ''} will be refused.`),
  );
}

/** The command prints all keys as they are after the act. */
function addKeyCommand(
  keys: Command,
  signature: string,
  description: string,
  act: (operations: SigningKeyOperations, kid: string) => Promise<void>,
): Command {
  const example = signature.includes(KID) ? EXAMPLE_KID : '';
  return addCommand(keys, signature, description, { ...HELP, example }).action(async (...parameters: unknown[]) => {
    const command = parameters.at(-1) as Command;
    const { withServices } = await import('./database-services.js');
    const found = await withServices(readVariables(), async ({ signingKeys }) => {
      await act(signingKeys, command.args[0] ?? '');
      return signingKeys.listKeys();
    });
    const rows = found.map(({ kid, state, createdAt, activatedAt, retiredAt, revokedAt }) => ({
      kid,
      state,
      created_at: createdAt.toISOString(),
      activated_at: activatedAt?.toISOString() ?? null,
      retired_at: retiredAt?.toISOString() ?? null,
      revoked_at: revokedAt?.toISOString() ?? null,
    }));
    const none =
      'There are no signing keys. Under HS256 the service signs with SECRET_KEY; under ES256 it makes them when it starts.';
    print(command, { keys: rows }, () => (rows.length > 0 ? formatTable(COLUMNS, rows) : none));
  });
}
