import { once } from 'node:events';
import { createServer } from 'node:net';
import type { Variables } from '../../src/config/environment.js';
import { FirstRunFolder } from '../support/first-run-folder.js';
import { claimPort } from '../../tools/claim-port.js';
import { endAll, ServiceProcess } from '../support/service-process.js';
import { ADMIN_KEY, SECRET_KEY, withSettings } from '../support/settings.js';

/** A closed port: the service must exit before it connects. */
const DATABASE_URL = 'postgresql://user:hunter2-hunter3@127.0.0.1:1/auth';

describe('a start with an invalid configuration', () => {
  let folder: FirstRunFolder;

  beforeEach(() => {
    folder = new FirstRunFolder();
  });

  afterEach(async () => {
    await endAll();
    await folder.remove();
  });

  const refusal = async (variables: Variables): Promise<string> => {
    const service = await ServiceProcess.spawn(variables, folder.path);
    expect(await service.exited()).toBe(1);
    return service.output;
  };

  const expectNothingMade = (): void => {
    expect([folder.environmentFile, folder.hasCluster]).toEqual([undefined, false]);
  };

  it('names the missing variables in production, and creates no database and no secret', async () => {
    const output = await refusal({ NODE_ENV: 'production' });
    expect(output).toContain('SECRET_KEY');
    expect(output).toContain('DATABASE_URL');
    expectNothingMade();
  });

  it.each([
    ['SECRET_KEY', 'hunter2-hunter3'],
    ['SECRET_KEY', 'changeme-changeme-changeme-changeme'],
    ['SECRET_KEY', 'your-secret-key-your-secret-key-your'],
    ['ADMIN_API_KEY', 'hunter2-hunter3'],
    ['ADMIN_API_KEY', 'placeholder-placeholder-placeholder'],
  ])('names %s when it is short or a placeholder (%s), without printing it', async (name, value) => {
    const output = await refusal({
      NODE_ENV: 'production',
      DATABASE_URL,
      SECRET_KEY,
      ADMIN_API_KEY: ADMIN_KEY,
      [name]: value,
    });
    expect(output).toContain(name);
    expect(output).not.toContain(value);
    expect(output).not.toContain('hunter2');
    expectNothingMade();
  });

  it('names an invalid value in development too, before it creates a secret or a database', async () => {
    const output = await refusal({ ACCESS_TOKEN_EXPIRE_MINUTES: '1e9' });
    expect(output).toContain('ACCESS_TOKEN_EXPIRE_MINUTES');
    expect(folder.hasCluster).toBe(false);
  });

  it('reports that its port is in use, and how to choose another', async () => {
    const port = await claimPort();
    const squatter = createServer().listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const output = await refusal({ PORT: String(port) });
    squatter.close();
    expect(output).toContain(`Port ${port} is taken`);
    expect(output).toContain('PORT=');
    expect(output).not.toMatch(/^\s+at /m);
    expect(folder.hasCluster).toBe(false);
  });

  it('reports that the database refuses connections, without the password of the URL', async () => {
    const limited = { ...withSettings({ startTimeoutSeconds: 1 }), PORT: String(await claimPort()) };
    const output = await refusal({ NODE_ENV: 'production', SECRET_KEY, DATABASE_URL, ...limited });
    expect(output).toMatch(/DATABASE_URL/);
    expect(output).not.toContain('hunter2');
    expect(output).not.toMatch(/^\s+at /m);
  });
});
