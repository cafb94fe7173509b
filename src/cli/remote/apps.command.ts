import { InvalidArgumentError, Option, type Command } from 'commander';
import type {
  AppCredentialResponse,
  IssuedAppCredentialResponse,
} from '../../api/admin/app-credentials.admin.controller.js';
import { APP_SCOPE_FORMAT, EXAMPLES } from '../../foundation/common/names.js';
import { addCommand, createRestrictionParser, NEEDS_ADMIN_KEY, parseExpiry } from '../command-options.js';
import {
  addList,
  addRevoke,
  addRotate,
  addShow,
  addUpdate,
  adviseOnLost,
  formatIssued,
  type IssuedType,
} from './credentials.command.js';
import { isFailure } from '../http-client.js';
import { CommandFailedError } from '../terminal.js';
import type { AdminClient } from './admin-client.js';
import { addRemote, toParameters } from './remote-command.js';

const APPS: IssuedType = {
  type: 'app',
  name: 'App credential',
  idField: 'app_id',
  path: '/app-credentials',
  columns: ['app_id', 'caller', 'target', 'scopes', 'last_used_at', 'rotated_at', 'expires_at', 'revoked_at'],
  drop: ['rotated_at', 'expires_at', 'revoked_at', 'last_used_at', 'scopes'],
  fields: ['app_id', 'app_key', 'caller', 'target'],
  shownOnce: 'The key is shown only this once.',
};

const parseAppScopes = createRestrictionParser('scopes, such as documents:read', APP_SCOPE_FORMAT.isName);
const SCOPES_OF_APP = 'the only scopes that it has at the target, separated by commas, or "all"';

/** The parser makes a boolean of the choice, because the service demands one. */
function createForUsersOption(): Option {
  const option = new Option('--for-users <yes|no>', 'whether it gets tokens for users at the target; needs --scopes');
  return option.argParser((text) => {
    if (text !== 'yes' && text !== 'no') throw new InvalidArgumentError('It must be yes or no.');
    return text === 'yes';
  });
}

/** @throws {CommandFailedError} app_credential_exists, with the id of the pair's live credential */
async function issueApp(
  client: AdminClient,
  options: Readonly<Record<string, string>>,
): Promise<IssuedAppCredentialResponse> {
  const { caller, target } = options;
  const advice = `If \`platform-auth apps list --caller ${caller} --target ${target} --live\` shows it, its key is lost: rotate it. Otherwise run this again.`;
  try {
    return await client.post<IssuedAppCredentialResponse>(APPS.path, toParameters(options), advice);
  } catch (error) {
    if (!isFailure(error, 'app_credential_exists')) throw error;
    const [live] = await client
      .list<AppCredentialResponse>(APPS.path, { caller, target, live: 'true' })
      .catch(() => []);
    // Another operator may have revoked it meanwhile.
    if (!live) throw error;
    const next = `The live credential is ${live.app_id}. To get a new key: platform-auth apps rotate ${live.app_id}`;
    throw new CommandFailedError(`${error.message}\n  ${next}`, error.code);
  }
}

/** `platform-auth apps …`: the credentials that services present to each other. */
export function addAppsCommands(root: Command): void {
  const summary = 'Manage the credentials of services. `init` issues those of a whole platform.';
  const apps = addCommand(root, 'apps', summary, { needs: NEEDS_ADMIN_KEY, example: 'list' });
  addList(apps, APPS, '--target recipes --live --unused-for 30d')
    .option('--caller <service>', 'only credentials that this service presents')
    .option('--target <service>', 'only credentials that are valid at this service');
  const description = 'Issue a credential for a pair of services, and print its key; it cannot be printed again.';
  addRemote(apps, 'issue', description, `--caller recipes --target ocr --scopes ${EXAMPLES.appScope}`)
    .requiredOption('--caller <service>', 'the service that presents the credential')
    .requiredOption('--target <service>', 'the service that it is valid at')
    .option('--scopes <list>', `${SCOPES_OF_APP} (default: all)`, parseAppScopes)
    .addOption(createForUsersOption())
    .option(
      '--expires <moment>',
      'ISO 8601, or in how long: 24h, 90d; or "never" (default: APP_KEY_DAYS of the service)',
      parseExpiry,
    )
    .answerKey(
      issueApp,
      (issued) => formatIssued(APPS, issued),
      (issued) => adviseOnLost(APPS, issued),
    );
  addShow(apps, APPS);
  const change =
    'Change the scopes of a credential, or whether it is for users. Its key stays, and the call answers when the change holds everywhere.';
  addUpdate(apps, APPS, change, `${EXAMPLES.id} --scopes ${EXAMPLES.appScope}`)
    .option('--scopes <list>', SCOPES_OF_APP, parseAppScopes)
    .addOption(createForUsersOption());
  addRotate(apps, APPS, EXAMPLES.id);
  addRevoke(apps, APPS);
}
