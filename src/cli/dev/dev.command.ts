import type { Command } from 'commander';
import { readProcessVariables } from '../../foundation/config/environment.js';
import { addCommand } from '../command-options.js';
import { print } from '../terminal.js';
import type { DevValues } from './dev.js';

/** `platform-auth dev`: see docs/dev.md. */
export function addDevCommand(root: Command): void {
  addCommand(
    root,
    'dev',
    'Serve on this machine with fixed keys, for developing the services of the map, until Ctrl-C.',
    {
      needs: `Connects to an embedded PostgreSQL of its own, in .data/dev of the current folder: ignores DATABASE_URL, every
secret of the environment, and .env. PORT (7701) and other variables of the service count.
The keys are public and the same on every machine, so it refuses NODE_ENV=production and any HOST but loopback.`,
      example: '--map platform.yaml',
    },
  )
    .option('--map <file>', 'the map of the platform (default: platform.yaml, or else two example services)')
    .action(async ({ map }: { map?: string }, command: Command) => {
      const { dev } = await import('./dev.js');
      await dev({ map, given: readProcessVariables(), show: (values) => print(command, values, formatValues) });
    });
}

function formatValues({ url, map, folder, user, node, node_targets: targets, ...rest }: DevValues): string {
  const lines = [
    `Ready: ${url} (${url}/docs, ${url}/console). Stop it with Ctrl-C.`,
    'These values are the same on every machine, and public. Production refuses them.',
    '',
    `map    ${map ?? 'an example, because there is no platform.yaml here'}`,
    `data   ${folder} (stop this and delete the folder to begin anew)`,
    `user   ${user.email}, password: ${user.password}, id ${user.id}`,
    `node   X-API-Key: ${node.node_id}:${node.api_key}`,
    `       of household ${node.household_id}, of which the user is an admin${targets ? `, valid at ${targets.join(', ')} only (X-Platform-Target)` : ''}`,
    `admin  X-Admin-Key: ${rest.admin_api_key}`,
    `cli    export AUTH_URL=${url} ADMIN_API_KEY=${rest.admin_api_key}`,
    'mail   is printed here with its links, and not sent',
  ];
  const blocks = rest.services.map(({ name, variables }) =>
    [`# ${name}`, ...Object.entries(variables).map(([variable, value]) => `${variable}=${value}`)].join('\n'),
  );
  return ['', lines.join('\n'), 'Into the environment of each service:', ...blocks, ''].join('\n\n');
}
