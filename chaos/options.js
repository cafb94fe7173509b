import { parseArgs } from 'node:util';

const SHORT_SECONDS = 1.5;

/** Reads the command line; ends the process on --help and on what it does not understand. */
export function options(names) {
  const usage = `Usage: npm run chaos -- [--only NAME]... [--seconds N] [--short] [--patience N] [--help]

  --only NAME   run this scenario only; may be given more than once
  --self-test   only the lies in the ledger that have to be found
  --seconds N   length of the load before and after each fault (default 5)
  --short       the same as --seconds ${SHORT_SECONDS}: all of it in about three minutes
  --patience N  allow N times as long wherever a bound is a time (default 1), for a machine that is slow or busy;
                wrong verdicts and lost writes are never allowed
  --help        this text

Scenarios: ${names.join(', ')}`;
  const fail = (message) => {
    console.error(`${message}\n\n${usage}`);
    process.exit(2);
  };
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        only: { type: 'string', multiple: true, default: [] },
        seconds: { type: 'string' },
        short: { type: 'boolean', default: false },
        patience: { type: 'string', default: '1' },
        'self-test': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }));
  } catch (error) {
    fail(error.message);
  }
  if (values.help) {
    console.log(usage);
    process.exit(0);
  }
  const seconds = Number(values.seconds ?? (values.short ? SHORT_SECONDS : 5));
  if (!(seconds >= 1 && seconds <= 600)) fail('--seconds: 1 to 600');
  const patience = Number(values.patience);
  if (!(patience >= 1 && patience <= 10)) fail('--patience: 1 to 10');
  const unknown = values.only.find((name) => !names.includes(name));
  if (unknown !== undefined) fail(`There is no scenario "${unknown}".`);
  return { seconds, patience, only: values.only, selfTestOnly: values['self-test'] };
}
