import { Command } from 'commander';
import { addRevoke, addShow, EXAMPLE_ID, overlapOption, rotate } from './credential-commands.js';
import { clientOf, outputOf, remote } from './remote-command.js';
import { fields, print, table, type Cell } from '../terminal.js';

const COLUMNS = ['app_id', 'caller', 'target', 'last_used_at', 'rotated_at', 'revoked_at'] as const;
const APPS = { group: 'apps', name: 'App credential', idField: 'app_id', path: '/app-credentials' };

type AppView = Readonly<Record<(typeof COLUMNS)[number], string | null>> & Readonly<Record<string, Cell>>;

/** `platform-auth apps …`: the credentials that services present to each other. */
export function appsCommand(): Command {
  const apps = new Command('apps')
    .description('Look after the credentials of services. `init` mints them.')
    .addHelpText('after', '\nExample:\n  platform-auth apps list');
  remote(apps.command('list'), 'List app credentials, revoked ones too.', 'apps list --target recipes')
    .option('--caller <service>', 'only those that this service presents')
    .option('--target <service>', 'only those that are presented to this service')
    .action(async ({ caller, target }: { caller?: string; target?: string }, command: Command) => {
      const items = await clientOf(command).list<AppView>(APPS.path, { caller, target });
      print(outputOf(command), { items }, () => table(COLUMNS, items));
    });
  addShow(apps, APPS);
  addRotate(apps);
  addRevoke(apps, APPS);
  return apps;
}

function addRotate(apps: Command): void {
  remote(apps.command('rotate <app_id>'), 'Make a new key and show it once.', `apps rotate ${EXAMPLE_ID}`)
    .addOption(overlapOption())
    .action(async (appId: string, { overlapHours }: { overlapHours?: number }, command: Command) => {
      const app = await rotate<AppView>(command, APPS, appId, overlapHours);
      print(outputOf(command), app, ({ app_id, app_key, caller, target, previous_key_expires_at }) =>
        [
          fields({ app_id, app_key, caller, target }),
          '',
          'The key is shown this once.',
          previous_key_expires_at === null
            ? 'The old one is refused from now on.'
            : `The old one is good until the new one is first used, and until ${previous_key_expires_at} at the latest.`,
        ].join('\n'),
      );
    });
}
