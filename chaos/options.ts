import { parseArgs } from 'node:util';
import { readCommandLine } from '../tools/command-line.js';

const SHORT_SECONDS = 1.5;

export interface Options {
  /** How long the load runs before and after each fault. */
  readonly seconds: number;
  /** Multiplies every bound that is a time. */
  readonly patience: number;
  /** The names of scenarios; without any, all run. */
  readonly only: readonly string[];
  readonly selfTestOnly: boolean;
  /** The folder of another checkout, built, from which a rolling restart upgrades; undefined: this one. */
  readonly old: string | undefined;
}

/** Reads the command line. Ends the process after --help or an invalid option. */
export function readOptions(names: readonly string[]): Options {
  const usage = `Usage: npm run chaos -- [--only NAME]... [--seconds N] [--short] [--old FOLDER]
                         [--patience N] [--help]

  --only NAME   run only this scenario; may be repeated
  --self-test   only check that false entries in the ledger are found
  --seconds N   length of the load before and after each fault (default 5)
  --short       the same as --seconds ${SHORT_SECONDS}: everything in about seven minutes
  --old FOLDER  rolling-restart upgrades from the build in this checkout, whose migrations must
                be the first of this one's
  --patience N  multiply every time bound by N (default 1), for a slow or busy machine;
                wrong verdicts and lost writes always fail
  --help        print this text

Scenarios: ${names.join(', ')}`;
  return readCommandLine(usage, () => parse(names));
}

function parse(names: readonly string[]): Options {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true, default: [] },
      seconds: { type: 'string' },
      short: { type: 'boolean', default: false },
      old: { type: 'string' },
      patience: { type: 'string', default: '1' },
      'self-test': { type: 'boolean', default: false },
    },
  });
  const seconds = Number(values.seconds ?? (values.short ? SHORT_SECONDS : 5));
  if (!(seconds >= 1 && seconds <= 600)) throw new Error('--seconds: 1 to 600');
  const patience = Number(values.patience);
  if (!(patience >= 1 && patience <= 10)) throw new Error('--patience: 1 to 10');
  const unknown = values.only.find((name) => !names.includes(name));
  if (unknown !== undefined) throw new Error(`Unknown scenario: ${unknown}`);
  return { seconds, patience, only: values.only, selfTestOnly: values['self-test'], old: values.old };
}
