import { Argument, Option, type Command } from 'commander';
import { formatReport } from './plan-report.js';
import type { PlatformMap } from './platform-map.js';
import { addYes, createConfirm, print } from '../terminal.js';
import { addCommand, DATABASE_EXAMPLE } from '../command-options.js';

export const URL_OF_OWN_FILE =
  'Connects to the database: DATABASE_URL is taken from the environment, or else from <dir>/auth.env.';
export const ENV_DIR = 'folder of the environment files: <service>.env for each service';
export const MAP_EXAMPLE = '--map platform.yaml --env-dir env';

type InitOptions = Readonly<{
  map: string;
  envDir: string;
  prune: boolean;
  rotate?: string | true;
  as?: string;
  dryRun: boolean;
}>;

/** `platform-auth init`: makes keys and environment files from the map; see docs/platform.md. */
export function addInitCommand(root: Command): void {
  const description =
    'Make the keys and the environment files of a platform from its map. Idempotent: safe to run again.';
  addYes(
    addCommand(root, 'init', description, {
      needs: `${URL_OF_OWN_FILE} If the database has live credentials, <dir>/auth.env must exist.
Asks before it rotates live keys of more than one service, makes a new SECRET_KEY, or revokes (--prune).`,
      variables: DATABASE_EXAMPLE,
      example: MAP_EXAMPLE,
    }),
  )
    .addOption(createMapOption())
    .requiredOption('--env-dir <dir>', ENV_DIR)
    .option('--prune', 'revoke the live credentials of pairs that are not in the map', false)
    .option('--rotate [service]', 'make new keys for the calls of this service, or of all; the old ones work for a day')
    .option('--as <name>', 'who acts, for the audit log (default: your user on this machine)')
    .option('--dry-run', 'print what would be done, and change nothing', false)
    .action(async ({ map: path, rotate, ...options }: InitOptions, command: Command) => {
      const map = await readMap(path);
      const { init } = await import('./init.js');
      const request = { map, ...options, rotate: rotate === true ? 'all' : rotate, confirm: createConfirm(command) };
      print(command, await init(request), formatReport);
    });
}

export function createMapOption(): Option {
  return new Option('--map <file>', 'the map of the platform: its services and their calls').makeOptionMandatory();
}

export async function readMap(path: string): Promise<PlatformMap> {
  const { readPlatformMap } = await import('./platform-map.js');
  return readPlatformMap(path);
}

/** `platform-auth schema`: JSON Schemas, for editors and pipelines. */
export function addSchemaCommand(root: Command): void {
  addCommand(root, 'schema', 'Print the JSON Schema of the map, or of the variables of the service.', {
    needs: 'Connects to nothing.',
    example: 'map > platform.schema.json',
  })
    .addArgument(new Argument('<what>', 'what it is of').choices(['map', 'variables']))
    .action(async (what: 'map' | 'variables') => {
      const { SCHEMAS } = await import('./platform-map.js');
      process.stdout.write(`${JSON.stringify(SCHEMAS[what](), null, 2)}\n`);
    });
}
