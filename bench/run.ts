// Throughput, latency and CPU of the hot routes, compared with baselines that are measured in turn in the same run. It
// runs on loopback, and stops by itself.
import { parseArgs } from 'node:util';
import { Cleanup } from '../tools/cleanup.js';
import { readCommandLine } from '../tools/command-line.js';
import { makeContestants } from './contestants.js';
import { measureCosts } from './costs.js';
import { measureEvents } from './events.js';
import { measureHouseholds } from './households.js';
import { measure } from './measure.js';
import { measureFleets } from './polls.js';
import { findGoObstacle } from './go.js';
import { findPythonObstacle } from './python.js';
import { printJson, printReport } from './report.js';
import { measureScale } from './scale.js';
import { judgeTargets } from './targets.js';
import { Testbed } from './testbed.js';
import { measureWorkers } from './workers.js';

const USAGE = `Usage: npm run bench -- [--seconds N] [--rounds N] [--only NAME]... [--workers] [--scale]
                          [--profile FOLDER] [--json]
       npm run bench -- polls [--profile FOLDER]
       npm run bench -- households [--against FOLDER] [--seconds N] [--rounds N] [--only ROUTE]...
       npm run bench -- events [--seconds N] [--rounds N] [--only 'logins 4']...

  polls         only fleets of 1,000 and 10,000 verifiers that poll two replicas, and what one
                call costs: about three minutes
  households    only hot routes without households, and with 100,000 of three members each
  events        only logins beside acts and the services that read them, a rare type after 30 days,
                and a purge while a service does not come back

  --against F   the service without households is the one that was built in the checkout F
  --seconds N   length of one measurement (default 4)
  --rounds N    number of measurements of each, in turn; the median counts (default 3)
  --only NAME   measure only contestants with NAME in their name; may be repeated
  --workers     also validate-node with WORKERS=1, 2 and 4
  --scale       also each hot route at 1,000 and at 1,000,000 rows a table, and the query plans
  --profile F   write a CPU profile of each service process into the folder F; best with --only
  --json        print everything as one JSON object
  --help        print this text

Timings are printed beside their targets and never fail the run.`;

const options = readCommandLine(USAGE, () => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      seconds: { type: 'string', default: '4' },
      rounds: { type: 'string', default: '3' },
      only: { type: 'string', multiple: true, default: [] },
      workers: { type: 'boolean', default: false },
      scale: { type: 'boolean', default: false },
      profile: { type: 'string' },
      against: { type: 'string' },
      json: { type: 'boolean', default: false },
    },
  });
  const [seconds, rounds] = [Number(values.seconds), Number(values.rounds)];
  if (!(seconds >= 1 && seconds <= 60 && rounds >= 1 && rounds <= 20))
    throw new Error('1 to 60 seconds, 1 to 20 rounds');
  const part = positionals.join(' ');
  if (!['', 'polls', 'households', 'events'].includes(part)) throw new Error(`There is no benchmark named ${part}`);
  return { ...values, seconds, rounds, part };
});

await Cleanup.around(async (cleanup) => {
  const testbed = await Testbed.start(cleanup, options.profile);
  const isWanted = (name: string): boolean =>
    options.only.length === 0 || options.only.some((part) => name.includes(part));
  if (options.part === 'households') return measureHouseholds(testbed, options, isWanted);
  if (options.part === 'events') return measureEvents(testbed, options, isWanted);
  if (options.part === 'polls') {
    await measureFleets(testbed);
    await measureCosts(testbed);
    return;
  }
  const { contestants, known } = await makeContestants(testbed, isWanted);
  const results = await measure(contestants, options);
  const report = {
    results,
    targets: judgeTargets(results),
    withoutPython: findPythonObstacle(),
    withoutGo: findGoObstacle(),
    workers: options.workers ? await measureWorkers(testbed, known, options) : undefined,
    scale: options.scale ? await measureScale(testbed, options) : undefined,
  };
  if (options.json) printJson(report);
  else printReport(report, options);
});
