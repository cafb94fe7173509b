import { claimPort } from '../../tools/claim-port.js';
import { ServiceProcess } from '../support/service-process.js';
import { OwnPlatform, SPECIFIED_PAIRS } from './own-platform.js';
import { StandIn } from './stand-in.js';

describe('a platform started from the files that init wrote', () => {
  let platform: OwnPlatform;
  let auth: ServiceProcess;
  const standIns = new Map<string, StandIn>();

  beforeAll(async () => {
    platform = await OwnPlatform.create();
    const names = platform.map.services.map(({ name }) => name).filter((name) => name !== 'auth');
    for (const name of names) standIns.set(name, await StandIn.listen(name));
    const port = await claimPort();
    platform.changeMap(({ services }) => {
      services.auth!.url = `http://127.0.0.1:${port}`;
      for (const [name, { url }] of standIns) services[name]!.url = url;
    });
    await platform.init();
    for (const [name, standIn] of standIns) standIn.read(platform.variables(name));
    // Production: the service has its own file and nothing else.
    const own = { ...platform.variables('auth'), NODE_ENV: 'production', PORT: String(port), LOG_LEVEL: 'silent' };
    auth = await ServiceProcess.start({ ...own, SHUTDOWN_DELAY_MS: '0' });
  });

  afterAll(async () => {
    for (const standIn of standIns.values()) standIn.close();
    await auth.stop();
    await platform.remove();
  });

  it.each(SPECIFIED_PAIRS.map((pair) => pair.split(' → ') as [string, string]))(
    'accepts the call from %s to %s',
    async (caller, target) => {
      expect(await standIns.get(caller)!.call(target)).toBe(200);
    },
  );

  it('refuses every call that is not in the map, with every credential', async () => {
    const names = platform.map.services.map(({ name }) => name);
    const others = [...standIns.keys()].flatMap((caller) =>
      names
        .filter((target) => target !== caller && !SPECIFIED_PAIRS.includes(`${caller} → ${target}`))
        .map((target) => ({ caller, target })),
    );
    expect(others).toHaveLength(11 * 11 - SPECIFIED_PAIRS.length);
    const statuses = await Promise.all(
      others.map(({ caller, target }) =>
        standIns.get(caller)!.callUninvited(target, target === 'auth' ? auth.url : standIns.get(target)!.url),
      ),
    );
    expect(new Set(statuses.flat())).toEqual(new Set([401]));
  });

  it('has no findings of doctor, which finds the running service by the map', async () => {
    expect(await platform.diagnose()).toEqual([]);
  });

  it('works on after init runs again', async () => {
    const files = platform.snapshot();
    await platform.init();
    expect(platform.snapshot()).toEqual(files);
    expect(await standIns.get('recipes')!.call('ocr')).toBe(200);
  });
});
