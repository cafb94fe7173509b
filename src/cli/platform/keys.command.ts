// `platform-auth keys`: the keys that sign access tokens under ES256; see docs/operations/keys.md.
import { Command } from 'commander';
import { COMMAND_LINE } from '../../access/actor.js';
import type { SigningKeyOperations } from '../../signing-keys/signing-key-operations.js';
import type { SigningKey } from '../../signing-keys/signing-key.js';
import { formatNeeds, NEEDS_DATABASE } from '../command-options.js';
import { print } from '../output.js';
import { addYes, createConfirm } from '../prompts.js';
import { formatTable } from '../tables.js';

const COLUMNS = ['kid', 'state', 'created_at', 'activated_at', 'retired_at', 'revoked_at'] as const;
const EXAMPLE_KID = 'sT3RrX8h2V0';

export function createKeysCommand(): Command {
  const keys = new Command('keys')
    .description('Manage the keys that sign access tokens under ES256.')
    .addHelpText('after', formatNeeds(NEEDS_DATABASE, 'DATABASE_URL=postgresql://… platform-auth keys list'));
  describeKeyCommand(keys.command('list'), 'List the signing keys.', 'list').action(
    async (_options: object, command: Command) => actOnKeys(command, () => Promise.resolve()),
  );
  describeKeyCommand(
    keys.command('rotate'),
    'Sign with the next key. Tokens of the present one stay valid until they expire.',
    'rotate',
  ).action(async (_options: object, command: Command) =>
    actOnKeys(command, async (operations) => operations.rotateActiveKey(COMMAND_LINE)),
  );
  describeKeyCommand(
    keys.command('retire').argument('<kid>', 'as "keys list" shows it'),
    'Stop signing with this key. Its tokens stay valid until they expire.',
    `retire ${EXAMPLE_KID}`,
  ).action(async (kid: string, _options: object, command: Command) =>
    actOnKeys(command, async (operations) => operations.retireKey(kid, COMMAND_LINE)),
  );
  describeKeyCommand(
    addYes(keys.command('revoke').argument('<kid>', 'as "keys list" shows it')),
    'Refuse all tokens of this key at once, because it was stolen. Their users refresh, and go on.',
    `revoke ${EXAMPLE_KID}`,
  ).action(async (kid: string, _options: object, command: Command) => {
    await createConfirm(command)(`All access tokens of key ${kid} will be refused.`);
    await actOnKeys(command, async (operations) => operations.revokeKey(kid, COMMAND_LINE));
  });
  return keys;
}

function describeKeyCommand(command: Command, description: string, example: string): Command {
  const help = formatNeeds(NEEDS_DATABASE, `DATABASE_URL=postgresql://… platform-auth keys ${example}`);
  return command.description(description).addHelpText('after', help);
}

/** Prints all keys as they are after the act. */
async function actOnKeys(command: Command, act: (operations: SigningKeyOperations) => Promise<void>): Promise<void> {
  const { withSigningKeys } = await import('./database-services.js');
  const keys = await withSigningKeys(async (operations) => {
    await act(operations);
    return (await operations.listKeys()).map(toReport);
  });
  print(command, { keys }, () =>
    keys.length > 0
      ? formatTable(COLUMNS, keys)
      : 'There are no signing keys. Under HS256 the service signs with SECRET_KEY; under ES256 it makes them when it starts.',
  );
}

function toReport({ kid, state, createdAt, activatedAt, retiredAt, revokedAt }: SigningKey) {
  return {
    kid,
    state,
    created_at: createdAt.toISOString(),
    activated_at: activatedAt?.toISOString() ?? null,
    retired_at: retiredAt?.toISOString() ?? null,
    revoked_at: revokedAt?.toISOString() ?? null,
  };
}
