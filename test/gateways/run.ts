// The configurations of deploy/gateways/ with the real nginx, Caddy and HAProxy, which Debian ships, before the built
// service and an upstream that answers what it received. The last line counts what was checked.
import { Checks } from '../../tools/checks.js';
import type { Cleanup } from '../../tools/cleanup.js';
import { makeTemporaryFolder } from '../../tools/postgres.js';
import { checkBodies, checkUpgrades } from './bodies.js';
import { startCaddy, startHaproxy, startNginx } from './gateways.js';
import { checkHeaders } from './headers.js';
import { checkFailures, checkOutages } from './outages.js';
import { checkPaths } from './paths.js';
import { checkQuestion } from './question.js';
import { checkUnusualForms, checkVerdicts } from './verdicts.js';
import { expectRecovery, makeWorld } from './world.js';

const checks = new Checks();

async function checkAll(cleanup: Cleanup): Promise<void> {
  const world = await makeWorld(checks, cleanup);
  const setting = {
    cleanup,
    folder: makeTemporaryFolder(cleanup, 'gateways'),
    authPort: world.network.port,
    upstreamPort: world.upstream.port,
  };
  for (const start of [startNginx, startCaddy, startHaproxy]) {
    const gateway = await start(setting);
    await expectRecovery(gateway, world);
    await checkVerdicts(gateway, world);
    await checkUnusualForms(gateway, world);
    await checkPaths(gateway, world);
    await checkHeaders(gateway, world);
    await checkUpgrades(gateway, world);
    await checkBodies(gateway, world);
    await checkQuestion(gateway, world);
    await checkOutages(gateway, world);
    await checkFailures(gateway, world);
  }
}

await checks.around(checkAll);
