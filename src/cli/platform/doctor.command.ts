import { Command, InvalidArgumentError } from 'commander';
import { httpUrl } from '../../config/variable-kinds.js';
import type { Finding } from './doctor.checkup.js';
import type { Colour } from '../screen.js';
import { readPlatformMap } from './platform-map.js';
import { formatTable, fitWidth, wrapText } from '../table.js';
import { CommandFailedError, print, type Output } from '../terminal.js';

const WHAT = 'what is wrong, and what to do';
/** What the table takes besides the text: the first column and the borders. */
const TABLE_FRAME = 'severity'.length + 7;

interface DoctorOptions extends Output {
  readonly map: string;
  readonly envDir: string;
  readonly url?: string;
}

/** `platform-auth doctor`: finds what is wrong with a platform and says what to do; see docs/platform.md. */
export function createDoctorCommand(): Command {
  return new Command('doctor')
    .description('Check files, keys, database and services of a platform. Exit code 1 when something is broken.')
    .requiredOption('--map <file>', 'the map of the platform: its services and their calls')
    .requiredOption('--env-dir <dir>', 'folder of the environment files: <service>.env for each service')
    .option('--url <url>', 'address of this service, if not the one in the map', parseUrl)
    .addHelpText(
      'after',
      `
Changes nothing, but validates every key, which counts as its use. DATABASE_URL is taken from the environment, or else from <dir>/auth.env.

Example:
  platform-auth doctor --map platform.yaml --env-dir env --url http://127.0.0.1:7701`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<DoctorOptions>();
      const { envDir, url } = options;
      const map = readPlatformMap(options.map);
      const { diagnose } = await import('./doctor.js');
      const findings = await diagnose({ map, envDir, url });
      print(options, { findings }, toText);
      const broken = findings.filter(({ severity }) => severity === 'broken').length;
      if (broken > 0) throw new CommandFailedError(`Broken: ${broken}.`, 'broken');
    });
}

function toText({ findings }: { findings: Finding[] }): string {
  if (findings.length === 0) return 'No problems found.';
  const width = fitWidth(TABLE_FRAME);
  const rows = findings.map((finding) => ({
    severity: finding.severity,
    [WHAT]: [finding.where, ...wrapText(finding.what, width), ...wrapText(`→ ${finding.do}`, width)],
  }));
  return formatTable(['severity', WHAT], rows, { drop: ['severity'], colour: toColour });
}

function toColour(name: string, value: unknown): Colour | undefined {
  if (name !== 'severity') return undefined;
  return value === 'broken' ? 'red' : 'yellow';
}

function parseUrl(text: string): string {
  if (!httpUrl.safeParse(text).success) throw new InvalidArgumentError('It must be an http(s) URL.');
  return text;
}
