import { Command } from 'commander';
import { clientOf, numberFrom, outputOf, remote, segment } from './remote-command.js';
import { fields, print, table, type Cell } from '../terminal.js';

const COLUMNS = ['app_id', 'caller', 'target', 'last_used_at', 'rotated_at', 'revoked_at'] as const;
const EXAMPLE_ID = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';
const MOST_OVERLAP_HOURS = 8_760;

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
      const items = await clientOf(command).list<AppView>('/app-credentials', { caller, target });
      print(outputOf(command), { items }, () => table(COLUMNS, items));
    });
  remote(apps.command('show <app_id>'), 'Show one app credential.', `apps show ${EXAMPLE_ID}`).action(
    async (appId: string, _options, command: Command) => {
      const app = await clientOf(command).get<AppView>(`/app-credentials/${segment(appId)}`);
      print(outputOf(command), app, fields);
    },
  );
  remote(apps.command('rotate <app_id>'), 'Make a new key and show it once.', `apps rotate ${EXAMPLE_ID}`)
    .option(
      '--overlap-hours <hours>',
      'how long the old key is good if the new one is not used (default: KEY_OVERLAP_HOURS of the service)',
      numberFrom(0, MOST_OVERLAP_HOURS),
    )
    .action(async (appId: string, { overlapHours }: { overlapHours?: number }, command: Command) => {
      const body = overlapHours === undefined ? undefined : { overlap_hours: overlapHours };
      const app = await clientOf(command).post<AppView>(`/app-credentials/${segment(appId)}/rotate`, body);
      print(outputOf(command), app, ({ app_id, app_key, caller, target, previous_key_expires_at }) =>
        [
          fields({ app_id, app_key, caller, target }),
          '',
          'The key is shown this once. The old one is good until the new one is first used,',
          `and until ${String(previous_key_expires_at)} at the latest.`,
        ].join('\n'),
      );
    });
  remote(apps.command('revoke <app_id>'), 'Refuse it from now on, for good.', `apps revoke ${EXAMPLE_ID}`).action(
    async (appId: string, _options, command: Command) => {
      await clientOf(command).delete(`/app-credentials/${segment(appId)}`);
      print(outputOf(command), { app_id: appId, revoked: true }, () => `App credential ${appId} is revoked.`);
    },
  );
  return apps;
}
