// Injects faults into the database, the network, the replicas and the disk under load, and judges every response by
// what was acknowledged before. Starts everything it needs on loopback, and removes it at the end; see docs/chaos.md.
import { options } from './options.js';
import { cleanUp, stopForGood } from './cleanup.js';
import { closeConnections } from './client.js';
import { explain, heading, line } from './report.js';
import { selfTest } from './self-test.js';
import { runScenario } from './stage.js';
import { scenarios } from './scenarios.js';

const { seconds, patience, only, selfTestOnly } = options(scenarios.map(({ name }) => name));
const STOP_TIMEOUT_MS = 20_000;
let stopping;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    if (stopping) return;
    console.error(`\n${signal}: stopping everything`);
    setTimeout(() => process.exit(130), STOP_TIMEOUT_MS).unref();
    stopping = stopForGood();
  });
}

process.on('uncaughtException', (error) => {
  // While everything is being stopped, requests in flight fail.
  if (stopping) return;
  console.error(error);
  stopping = stopForGood().then(() => process.exit(1));
});

const count = { passed: 0, failed: 0 };
const problems = [];
const chosen = selfTestOnly ? [] : scenarios.filter(({ name }) => only.length === 0 || only.includes(name));

console.log(`Node ${process.version}, ${seconds} s of load before and after each fault\n`);
console.log(heading());
for (const scenario of [selfTest, ...chosen]) {
  const result = await runScenario(scenario, { seconds, patience }).catch((error) => ({
    scenario,
    broken: [error.stack],
  }));
  await cleanUp();
  if (stopping) await stopping.then(() => process.exit(130));
  console.log(line(result));
  if (result.notRun) continue;
  count[result.broken.length === 0 ? 'passed' : 'failed'] += 1;
  problems.push(...explain(result));
}
closeConnections();
for (const problem of problems) console.log(problem);
console.log(`\n${count.passed} passed, ${count.failed} failed`);
process.exit(count.failed === 0 ? 0 : 1);
