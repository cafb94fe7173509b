import { Command } from 'commander';
import { addYes, createConfirm } from '../confirm.js';
import { formatTable } from '../table.js';
import { print, type Output } from '../terminal.js';
import type { KeyReport } from './keys.js';

const NEEDS = '\nConnects to the database: needs DATABASE_URL.';

const EXAMPLE_KID = 'sT3RrX8h2V0';

type KeyWork = (keys: typeof import('./keys.js')) => Promise<KeyReport[]>;

/** `platform-auth keys`: the keys that sign access tokens under ES256; see docs/operations/keys.md. */
export function createKeysCommand(): Command {
  return new Command('keys')
    .description('Manage the keys that sign access tokens under ES256.')
    .addHelpText('after', '\nExample:\n  platform-auth keys list')
    .addCommand(
      create('list', 'List the signing keys.').action((_options: object, command: Command) =>
        run(command, (keys) => keys.listKeys()),
      ),
    )
    .addCommand(
      create('rotate', 'Sign with the next key. Tokens of the present one stay valid until they expire.').action(
        (_options: object, command: Command) => run(command, (keys) => keys.rotateKeys()),
      ),
    )
    .addCommand(
      create('retire', 'Stop signing with this key. Its tokens stay valid until they expire.', `retire ${EXAMPLE_KID}`)
        .argument('<kid>', 'as "keys list" shows it')
        .action((kid: string, _options: object, command: Command) => run(command, (keys) => keys.retireKey(kid))),
    )
    .addCommand(
      addYes(
        create(
          'revoke',
          'Refuse all tokens of this key at once, because it was stolen. Their users refresh, and go on.',
          `revoke ${EXAMPLE_KID}`,
        ),
      )
        .argument('<kid>', 'as "keys list" shows it')
        .action(async (kid: string, _options: object, command: Command) => {
          await createConfirm(command)(`All access tokens of key ${kid} will be refused.`);
          await run(command, (keys) => keys.revokeKey(kid));
        }),
    );
}

function create(name: string, description: string, example = name): Command {
  const text = `\n\nExample:\n  DATABASE_URL=postgresql://… platform-auth keys ${example}`;
  return new Command(name).description(description).addHelpText('after', NEEDS + text);
}

async function run(command: Command, work: KeyWork): Promise<void> {
  const keys = await work(await import('./keys.js'));
  print(command.optsWithGlobals<Output>(), { keys }, toText);
}

function toText({ keys }: { keys: KeyReport[] }): string {
  return formatTable(['kid', 'state', 'created_at', 'activated_at', 'retired_at', 'revoked_at'], keys);
}
