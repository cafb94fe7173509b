import { Command, InvalidArgumentError } from 'commander';
import { httpUrl } from '../../config/variable-kinds.js';
import type { Finding } from './doctor.checkup.js';
import { readPlatformMap } from './platform-map.js';
import { CommandFailed, print, table, wrapped, type Output } from '../terminal.js';

interface DoctorOptions extends Output {
  readonly map: string;
  readonly envDir: string;
  readonly url?: string;
}

/** `platform-auth doctor`: what is wrong with a platform, and what to do about it; see docs/platform.md. */
export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Check files, keys, database and services of a platform. Exit code 1 when something is broken.')
    .requiredOption('--map <file>', 'the map of the platform: its services and who calls whom')
    .requiredOption('--env-dir <dir>', 'where the environment files are: one for each service, <service>.env')
    .option('--url <url>', 'where this service answers, if not at the address in the map', parseUrl)
    .addHelpText(
      'after',
      `
Changes nothing, but presents every key, which counts as its use. The database is that of DATABASE_URL, or else of <dir>/auth.env.

Example:
  platform-auth doctor --map platform.yaml --env-dir env --url http://127.0.0.1:7701`,
    )
    .action(async (_options, command: Command) => {
      const options = command.optsWithGlobals<DoctorOptions>();
      const { envDir, url } = options;
      const map = readPlatformMap(options.map);
      const { diagnose } = await import('./doctor.js');
      const findings = await diagnose({ map, envDir, url });
      print(options, { findings }, asText);
      const broken = findings.filter(({ severity }) => severity === 'broken').length;
      if (broken > 0) throw new CommandFailed(`Broken: ${broken}.`);
    });
}

function asText({ findings }: { findings: Finding[] }): string {
  if (findings.length === 0) return 'All is well.';
  const rows = findings.map((finding) => ({
    severity: finding.severity,
    'what is wrong, and what to do': [finding.where, ...wrapped(finding.what), ...wrapped(`→ ${finding.do}`)],
  }));
  return table(['severity', 'what is wrong, and what to do'], rows);
}

function parseUrl(text: string): string {
  if (!httpUrl.safeParse(text).success) throw new InvalidArgumentError('It must be an http(s) URL.');
  return text;
}
