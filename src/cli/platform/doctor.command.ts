import { existsSync } from 'node:fs';
import { InvalidArgumentError, type Command } from 'commander';
import { httpUrl } from '../../foundation/config/variable-kinds.js';
import { addCommand, NEEDS_ADMIN_KEY } from '../command-options.js';
import type { PlatformFinding } from './finding.js';
import { resolveEnvPath } from './environment-files.js';
import { createMapOption, ENV_DIR, MAP_EXAMPLE, readMap, URL_OF_OWN_FILE } from './init.command.js';
import { OWN_NAME, type PlatformMap } from './platform-map.js';
import { fitWidth, formatTable, wrapText } from '../tables.js';
import { CommandFailedError, print } from '../terminal.js';
import { AdminClient } from '../remote/admin-client.js';
import { readRemoteVariables } from '../remote/remote-command.js';

const WHAT = 'what is wrong, and what to do';
/** The width of the first column and of the borders. */
const TABLE_FRAME = 'severity'.length + 7;

type DoctorOptions = Readonly<{ map: string; envDir?: string; url?: string; live: boolean }>;

/** `platform-auth doctor`: finds what is wrong with a platform and says what to do; see docs/platform.md. */
export function addDoctorCommand(root: Command): void {
  const description = 'Check files, keys, database and services of a platform. Exit code 1 when something is broken.';
  addCommand(root, 'doctor', description, {
    needs: `Changes nothing. Looks keys up by their digests, so that no key is used. ${URL_OF_OWN_FILE}
Without --env-dir, or with a folder of apply, it asks the service only, from any machine. ${NEEDS_ADMIN_KEY}`,
    example: `${MAP_EXAMPLE} --url http://127.0.0.1:7701`,
  })
    .addOption(createMapOption())
    .option('--env-dir <dir>', ENV_DIR)
    .option('--url <url>', 'address of this service, if not the one in the map', parseUrl)
    .option('--live', 'also ask at the address of every other service of the map', false)
    .action(async ({ map: path, envDir, url, live }: DoctorOptions, command: Command) => {
      const map = await readMap(path);
      const isRemote = envDir === undefined || isFolderOfApply(envDir);
      const findings = isRemote
        ? await askOnly(map, url, envDir)
        : await (await import('./doctor.js')).diagnose({ map, envDir, url });
      const { askServices, formatRunning } = await import('./doctor-calls.js');
      const running = live ? await askServices(map) : undefined;
      const limit = envDir === undefined ? LIMIT_FROM_AFAR : isRemote ? LIMIT_OF_APPLY : LIMIT;
      print(command, { findings, running }, () =>
        [formatFindings({ findings }, limit), ...(running ? [formatRunning(running)] : [])].join('\n\n'),
      );
      const broken = findings.filter(({ severity }) => severity === 'broken').length;
      if (broken > 0) throw new CommandFailedError(`Broken: ${broken}.`, 'broken');
    });
}

const LIMIT = 'A variable that a process was started with overrides its file, and doctor does not see it.';

const LIMIT_FROM_AFAR =
  'Neither the files nor the database were looked at, and no key was looked up: that needs --env-dir.';

const LIMIT_OF_APPLY = `There is no ${OWN_NAME}.env, so the files were compared with the running service, as apply does. ${LIMIT}`;

/**
 * Whether `apply` made the folder: `init` writes the file of auth first, and `apply` never does, because only auth has
 * its secrets.
 */
function isFolderOfApply(envDir: string): boolean {
  const hasKey = readRemoteVariables().ADMIN_API_KEY !== undefined;
  return hasKey && existsSync(envDir) && !existsSync(resolveEnvPath(envDir, OWN_NAME));
}

async function askOnly(
  map: PlatformMap,
  given: string | undefined,
  envDir: string | undefined,
): Promise<PlatformFinding[]> {
  const client = AdminClient.from(given ?? map.services[0]?.url ?? '', readRemoteVariables());
  const { diagnoseOverHttp } = await import('./apply.js');
  return diagnoseOverHttp(client, map, envDir);
}

function formatFindings({ findings }: { findings: PlatformFinding[] }, limit: string): string {
  if (findings.length === 0) return `No problems found.\n\n${limit}`;
  const width = fitWidth(TABLE_FRAME);
  const rows = findings.map((finding) => ({
    severity: finding.severity,
    [WHAT]: [finding.where, ...wrapText(finding.what, width), ...wrapText(`→ ${finding.do}`, width)],
  }));
  const colour = (name: string, value: unknown) =>
    name !== 'severity' ? undefined : value === 'broken' ? ('red' as const) : ('yellow' as const);
  return `${formatTable(['severity', WHAT], rows, { drop: ['severity'], colour })}\n${limit}`;
}

function parseUrl(text: string): string {
  if (!httpUrl.safeParse(text).success) throw new InvalidArgumentError('It must be an http(s) URL.');
  return text;
}
