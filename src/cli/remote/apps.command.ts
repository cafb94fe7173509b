import { Command } from 'commander';
import type { Api } from './api-types.js';
import { EXAMPLES } from '../../common/examples.js';
import {
  addFilters,
  applyFilters,
  toMomentColour,
  type ListFilters,
  addRevoke,
  addShow,
  createOverlapOption,
  describeOldKey,
  rotate,
} from './credential-commands.js';
import { parseExpiry, toExpiresAt, formatNeeds, NEEDS_ADMIN_KEY } from '../command-options.js';
import { createClient, readOutput, describeRemote } from './admin-client.js';
import { withAdvice } from '../http-client.js';
import { formatFields, formatTable } from '../tables.js';
import { print } from '../output.js';

const COLUMNS = ['app_id', 'caller', 'target', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'] as const;
const DROP = ['rotated_at', 'expires_at', 'revoked_at', 'last_used_at'] as const;
const APPS = {
  group: 'apps',
  kind: 'app',
  name: 'App credential',
  idField: 'app_id',
  path: '/app-credentials',
} as const;

export type AppView = Api['AppCredentialResponse'];
type IssuedApp = Api['IssuedAppCredentialResponse'];

interface ListOptions extends ListFilters {
  readonly caller?: string;
  readonly target?: string;
}

/** `platform-auth apps …`: the credentials that services present to each other. */
export function createAppsCommand(): Command {
  const apps = new Command('apps')
    .description('Manage the credentials of services. `init` issues those of a whole platform.')
    .addHelpText('after', formatNeeds(NEEDS_ADMIN_KEY, 'platform-auth apps list'));
  addFilters(
    describeRemote(
      apps.command('list'),
      'List app credentials, including revoked ones.',
      'apps list --target recipes --live --unused-for 30d',
    ),
  )
    .option('--caller <service>', 'only credentials that this service presents')
    .option('--target <service>', 'only credentials that are valid at this service')
    .action(async ({ caller, target, ...filters }: ListOptions, command: Command) => {
      const items = applyFilters(await createClient(command).list<AppView>(APPS.path, { caller, target }), filters);
      print(readOutput(command), { items }, () => formatTable(COLUMNS, items, { drop: DROP, colour: toMomentColour }));
    });
  addMint(apps);
  addShow(apps, APPS);
  addRotate(apps);
  addRevoke(apps, APPS);
  return apps;
}

function addMint(apps: Command): void {
  describeRemote(
    apps.command('mint'),
    'Mint a credential for a pair of services, and print its key; it cannot be printed again.',
    'apps mint --caller recipes --target ocr',
  )
    .requiredOption('--caller <service>', 'the service that presents the credential')
    .requiredOption('--target <service>', 'the service that it is valid at')
    .option('--expires <moment>', 'ISO 8601, or in how long: 24h, 90d (default: never)', parseExpiry)
    .action(async (options: { caller: string; target: string; expires?: string }, command: Command) => {
      const { caller, target, expires } = options;
      const app = await withAdvice(
        createClient(command).post<IssuedApp>(APPS.path, { caller, target, expires_at: toExpiresAt(expires) }),
        `If \`platform-auth apps list --caller ${caller} --target ${target} --live\` shows it, its key is lost: rotate it. Otherwise run this again.`,
      );
      print(readOutput(command), app, (minted) => `${formatIssued(minted)}\n\nThe key is shown only this once.`);
    });
}

function addRotate(apps: Command): void {
  describeRemote(
    apps.command('rotate <app_id>'),
    'Make a new key and print it; it cannot be printed again.',
    `apps rotate ${EXAMPLES.id}`,
  )
    .addOption(createOverlapOption())
    .action(async (appId: string, { overlapHours }: { overlapHours?: number }, command: Command) => {
      const app = await rotate<IssuedApp>(command, APPS, appId, overlapHours);
      print(readOutput(command), app, (rotated) =>
        [
          formatIssued(rotated),
          '',
          'The key is shown only this once.',
          describeOldKey(rotated.previous_key_expires_at),
        ].join('\n'),
      );
    });
}

function formatIssued({ app_id, app_key, caller, target, expires_at }: IssuedApp): string {
  return formatFields({ app_id, app_key, caller, target, ...(expires_at !== null && { expires_at }) });
}
