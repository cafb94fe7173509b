import { Command } from 'commander';
import { addRevoke, addShow, EXAMPLE_ID, createOverlapOption, rotate } from './credential-commands.js';
import { createClient, readOutput, describeRemote } from './remote-command.js';
import { formatFields, formatTable, type Cell } from '../table.js';
import { print } from '../terminal.js';

const COLUMNS = ['app_id', 'caller', 'target', 'last_used_at', 'rotated_at', 'revoked_at'] as const;
const APPS = { group: 'apps', name: 'App credential', idField: 'app_id', path: '/app-credentials' };

type AppView = Readonly<Record<(typeof COLUMNS)[number], string | null>> & Readonly<Record<string, Cell>>;

/** `platform-auth apps …`: the credentials that services present to each other. */
export function createAppsCommand(): Command {
  const apps = new Command('apps')
    .description('Manage the credentials of services. `init` mints them.')
    .addHelpText('after', '\nExample:\n  platform-auth apps list');
  describeRemote(apps.command('list'), 'List app credentials, including revoked ones.', 'apps list --target recipes')
    .option('--caller <service>', 'only credentials that this service presents')
    .option('--target <service>', 'only credentials that are valid at this service')
    .action(async ({ caller, target }: { caller?: string; target?: string }, command: Command) => {
      const items = await createClient(command).list<AppView>(APPS.path, { caller, target });
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items));
    });
  addShow(apps, APPS);
  addRotate(apps);
  addRevoke(apps, APPS);
  return apps;
}

function addRotate(apps: Command): void {
  describeRemote(
    apps.command('rotate <app_id>'),
    'Make a new key and print it; it cannot be printed again.',
    `apps rotate ${EXAMPLE_ID}`,
  )
    .addOption(createOverlapOption())
    .action(async (appId: string, { overlapHours }: { overlapHours?: number }, command: Command) => {
      const app = await rotate<AppView>(command, APPS, appId, overlapHours);
      print(readOutput(command), app, ({ app_id, app_key, caller, target, previous_key_expires_at }) =>
        [
          formatFields({ app_id, app_key, caller, target }),
          '',
          'The key is shown only this once.',
          previous_key_expires_at === null
            ? 'The old one is refused from now on.'
            : `The old one is valid until the new one is first used, and until ${previous_key_expires_at} at the latest.`,
        ].join('\n'),
      );
    });
}
