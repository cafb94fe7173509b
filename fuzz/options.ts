import { parseArgs } from 'node:util';
import { readCommandLine } from '../tools/command-line.js';

const USAGE = `Usage: npm run fuzz -- [--requests N] [--seed S] [--short] [--only TEXT]

  --requests N  number of requests over all operations (default 100000)
  --seed S      an integer; the same seed generates the same requests (default: the time)
  --short       at most a minute: 8000 requests, or fewer when the time is up
  --only TEXT   only lanes whose name contains this text, such as 'POST /api/v0/auth/login'
  --help        print this text`;

const DEFAULT_REQUESTS = 100_000;
export const SHORT_REQUESTS = 8_000;

export interface Options {
  readonly requests: number;
  readonly seed: number;
  readonly short: boolean;
  /** Part of the names of lanes; empty: all. */
  readonly only: string;
}

/** Reads the command line; ends the process after --help and on an invalid option. */
export function readOptions(): Options {
  return readCommandLine(USAGE, () => {
    const { values } = parseArgs({
      options: {
        requests: { type: 'string' },
        seed: { type: 'string', default: String(Math.trunc(Date.now() / 1000) % 2 ** 31) },
        short: { type: 'boolean', default: false },
        only: { type: 'string', default: '' },
      },
    });
    const requests = Number(values.requests ?? (values.short ? SHORT_REQUESTS : DEFAULT_REQUESTS));
    const seed = Number(values.seed);
    if (!Number.isSafeInteger(requests) || requests < 1) throw new Error('--requests must be a positive integer');
    if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 31) throw new Error('--seed must be a 32-bit integer');
    return { requests, seed, short: values.short, only: values.only };
  });
}
