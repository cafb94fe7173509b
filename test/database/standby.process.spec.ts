import { eventually } from '../../tools/eventually.js';
import { Callers, SHORT_WAITS } from '../support/outage.js';
import { OwnPostgres } from '../support/own-postgres.js';
import { ServiceProcess } from '../support/service-process.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { VARIABLES, withSettings } from '../support/settings.js';
import { TestApp } from '../support/test-app.js';

describe('a streaming standby', () => {
  let primary: OwnPostgres;
  let standby: OwnPostgres;
  let proxy: TcpProxy;
  let callers: Callers;

  beforeAll(async () => {
    primary = await OwnPostgres.start();
    standby = await primary.withStandby();
    proxy = await TcpProxy.before(primary.database.url);
    const database = { ...primary.database, url: proxy.url };
    callers = await Callers.of(await TestApp.start({ database, ...SHORT_WAITS }));
  }, 240_000);

  afterAll(async () => {
    await callers.app.stop();
    await proxy.close();
    await standby.remove();
    await primary.remove();
  });

  const isInRecovery = async (): Promise<boolean> => {
    const [row] = await standby.database.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is');
    return row!.is;
  };

  it('is refused at the start, with exit code 1 and the reason', async () => {
    expect(await isInRecovery()).toBe(true);
    const variables = { ...VARIABLES, LOG_LEVEL: 'warn', DATABASE_URL: standby.database.url };
    const service = await ServiceProcess.spawn({ ...variables, ...withSettings({ startTimeoutSeconds: 2 }) });
    expect(await service.exited()).toBe(1);
    expect(service.output).toContain('start_waits');
    expect(service.output).toMatch(/The service could not start: .*the database is a standby/);
    expect(service.output).not.toContain('of-a-test');
  });

  it('causes 503 on every route and in /health when a running service is connected to it', async () => {
    await primary.stop('fast');
    proxy.redirectTo(standby.database.url);
    await callers.expectNoVerdicts();
    await callers.expectNoVerdicts();
    expect(await isInRecovery()).toBe(true);
  });

  it('is used when it is promoted, by the running service and by a start that waited for it', async () => {
    const variables = { ...VARIABLES, LOG_LEVEL: 'warn', DATABASE_URL: standby.database.url };
    const service = await ServiceProcess.spawn(variables);
    await eventually('the start waits', () => service.output.includes('the database is a standby'));
    expect(await service.status('/health/live')).toBeUndefined();
    await standby.promote();
    await callers.expectRecovered();
    await service.ready();
    expect(await service.stop()).toBe(0);
  }, 240_000);

  it('is refused also when the primary comes back as a standby', async () => {
    await standby.stop('fast');
    await standby.startAsStandbyOf(primary);
    await callers.expectNoVerdicts();
    await standby.promote();
    await callers.expectRecovered();
    await primary.startAgain();
  });
});
