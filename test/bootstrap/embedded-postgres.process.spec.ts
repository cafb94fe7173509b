import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { makePassword, withClient } from '../../tools/postgres.js';
import { FirstRunFolder } from '../support/first-run-folder.js';

describe('the embedded server of a folder', () => {
  let folder: FirstRunFolder;

  beforeEach(() => {
    folder = new FirstRunFolder();
  });

  afterEach(() => folder.remove());

  const start = () =>
    EmbeddedPostgres.start({ folder: join(realpathSync(folder.path), '.data/postgres'), makePassword });
  const startTogether = () => Promise.all([start(), start(), start()]);

  it('is shared by all that start it at the same time, and stopped when they stop at the same time', async () => {
    const all = await startTogether();
    expect(new Set(all.map((server) => server.url())).size).toBe(1);
    expect(folder.serverPid).toBeGreaterThan(0);
    await Promise.all(all.map((server) => server.stop()));
    expect(folder.serverPid).toBeUndefined();
    const [again] = await startTogether();
    await again.stop();
    expect(folder.serverPid).toBeUndefined();
  });

  it('is stopped although a connection of an ended process lasts a moment longer', async () => {
    const server = await start();
    let stopped: Promise<void> | undefined;
    await withClient(server.url(), async (client) => {
      stopped = server.stop();
      await client.query('SELECT pg_sleep(0.3)');
    });
    await stopped;
    expect(folder.serverPid).toBeUndefined();
  });

  it('runs on while another process uses it', async () => {
    const server = await start();
    await withClient(server.url(), async (client) => {
      await server.stop();
      expect((await client.query('SELECT 1')).rows).toHaveLength(1);
    });
    await server.stop();
    expect(folder.serverPid).toBeUndefined();
  });
});
