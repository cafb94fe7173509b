// No verdict: never a 401, and never a pass.
import { eventually } from '../../tools/eventually.js';
import { isHealthy } from '../../tools/server-process.js';
import { StandIn } from '../guards/stand-in.js';
import { DOORS } from './credentials.js';
import { expectEqual, expectUnavailable } from './expectations.js';
import type { Gateway } from './gateways.js';
import { send } from './http.js';
import { FAILURE_CASES } from './stand-ins.js';
import { expectRecovery, type World } from './world.js';

export async function checkOutages(gateway: Gateway, world: World): Promise<void> {
  const { name, port } = gateway;
  const { checks, network, postgres, credentials, upstream, service } = world;
  const expectOutage = async (): Promise<void> => {
    upstream.seen.length = 0;
    for (const door of DOORS) {
      const { good, bad } = credentials[door];
      for (const headers of [good, bad]) expectUnavailable(await send(port, { path: `/${door}/x?y`, headers }));
    }
    expectEqual(upstream.seen.length, 0);
  };
  await checks.run(`${name}: answers 503 while the service is stopped, and recovers`, async () => {
    await network.close();
    await expectOutage().finally(() => network.open());
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the service hangs, and recovers`, async () => {
    network.blackHole(true);
    await expectOutage().finally(() => network.blackHole(false));
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the database of the service is away, and recovers`, async () => {
    await postgres.stop('immediate');
    await expectOutage().finally(() => postgres.startAgain());
    await eventually('the service is healthy', () => isHealthy(service.url));
    await expectRecovery(gateway, world);
  });
}

export async function checkFailures(gateway: Gateway, world: World): Promise<void> {
  const { checks, network, service, credentials, upstream } = world;
  const standIn = await StandIn.start();
  network.redirectTo(standIn.url);
  for (const { name, answers } of FAILURE_CASES) {
    await checks.run(`${gateway.name}: answers 503 when the service ${name}`, async () => {
      standIn.answerWith(...answers);
      upstream.seen.length = 0;
      for (const door of DOORS)
        expectUnavailable(await send(gateway.port, { path: `/${door}/x`, headers: credentials[door].good }));
      expectEqual(upstream.seen.length, 0);
    });
  }
  network.redirectTo(service.url);
  standIn.stop();
  await expectRecovery(gateway, world);
}
