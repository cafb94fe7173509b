// No verdict, or answers that platform-auth never gives: never a 401, and never a pass.
import { eventually } from '../../tools/eventually.js';
import { isHealthy } from '../../tools/server-process.js';
import { StandIn } from '../guards/stand-in.js';
import { DOORS, expectRecovery, type World } from './world.js';
import { expectEqual, expectUnavailable, send } from './http.js';
import type { Gateway } from './gateways.js';
import * as standIn from '../guards/stand-in.js';

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
    try {
      await expectOutage();
    } finally {
      await network.open();
    }
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the service hangs, and recovers`, async () => {
    network.blackHole(true);
    await expectOutage().finally(() => network.blackHole(false));
    await expectRecovery(gateway, world);
  });
  await checks.run(`${name}: answers 503 while the database of the service is away, and recovers`, async () => {
    await postgres.stop('immediate');
    try {
      await expectOutage();
    } finally {
      await postgres.startAgain();
    }
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

type Answers = Parameters<StandIn['answerWith']>;

interface FailureCase {
  readonly name: string;
  readonly answers: Answers;
}

const challenge =
  (value: string, status = 401): Answers[number] =>
  (response) =>
    void response.writeHead(status, { 'WWW-Authenticate': value, 'Content-Type': 'text/html' }).end('<h1>Sign in</h1>');

const FAILURE_CASES: readonly FailureCase[] = [
  { name: 'is unavailable', answers: [standIn.problem(503, 'unavailable')] },
  { name: 'breaks connections', answers: [standIn.breakConnection] },
  { name: 'hangs', answers: [standIn.hang] },
  { name: 'fails', answers: [standIn.problem(500, 'internal_error')] },
  { name: 'does not know the path', answers: [standIn.problem(404, 'not_found')] },
  { name: 'forbids', answers: [standIn.problem(403, 'forbidden')] },
  { name: 'asks to wait', answers: [standIn.problem(429, 'too_many_requests')] },
  { name: 'redirects', answers: [standIn.redirect] },
  { name: 'is another server that answers 200', answers: [standIn.page(200)] },
  { name: 'is another server that answers 400', answers: [standIn.page(400)] },
  { name: 'is another server that answers 401', answers: [standIn.page(401)] },
  { name: 'is another server that demands a password', answers: [challenge('Basic realm="intranet"')] },
  {
    name: 'is another server that demands a token',
    answers: [challenge('Bearer realm="intranet", error="invalid_token"')],
  },
  {
    name: 'is another server that demands a scope',
    answers: [challenge('PlatformApp realm="intranet", error="insufficient_scope", scope="x"', 403)],
  },
  { name: 'is another server that answers 431', answers: [standIn.page(431)] },
];
