// Injects faults into the database, the network, the replicas and the disk under load, and judges every response by
// what was acknowledged before. Runs on loopback and removes everything at its end; see docs/chaos.md.
import { Cleanup } from '../tools/cleanup.js';
import { closeConnections } from './client.js';
import { readOptions } from './options.js';
import { explain, printHeading, printResult } from './report.js';
import { scenarios } from './scenarios.js';
import { selfTest } from './self-test.js';
import { runScenario, type Result, type Scenario } from './stage.js';
import { findVerifierPrograms } from './verifiers/programs.js';

const options = readOptions(scenarios.map(({ name }) => name));
const { seconds, only, selfTestOnly } = options;

await Cleanup.around(async (cleanup) => {
  // Called before the load, which an installation would stop.
  findVerifierPrograms();
  const count = { passed: 0, failed: 0 };
  const problems: string[] = [];
  const chosen = selfTestOnly ? [] : scenarios.filter(({ name }) => only.length === 0 || only.includes(name));
  console.log(`Node ${process.version}, ${seconds} s of load before and after each fault\n`);
  printHeading();
  for (const scenario of [selfTest, ...chosen]) {
    const result = await runScenario(scenario, { cleanup, ...options }).catch((error: unknown) =>
      failure(scenario, error),
    );
    await cleanup.run();
    cleanup.assertOpen();
    printResult(result);
    if (result.notRun !== undefined) continue;
    count[result.broken.length === 0 ? 'passed' : 'failed'] += 1;
    problems.push(...explain(result));
  }
  closeConnections();
  for (const problem of problems) console.log(problem);
  console.log(`\n${count.passed} passed, ${count.failed} failed`);
  process.exitCode = count.failed === 0 ? 0 : 1;
});

/** The result of a scenario that could not run to its end. */
function failure(scenario: Scenario, error: unknown): Result {
  const causes: readonly unknown[] = error instanceof AggregateError ? error.errors : [];
  return {
    scenario,
    broken: [error, ...causes].map((each) => (each instanceof Error ? (each.stack ?? each.message) : String(each))),
  };
}
