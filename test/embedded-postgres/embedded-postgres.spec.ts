import { Client } from 'pg';
import { EmbeddedPostgres } from '../../src/embedded-postgres/embedded-postgres.js';
import { Cleanup } from '../../tools/cleanup.js';
import { makePassword, makeServerFolder } from '../../tools/postgres.js';
import { afterNext } from '../support/after-next.js';

interface Internals {
  hasOtherClients(): Promise<boolean>;
}

describe('the embedded PostgreSQL of a folder', () => {
  const cleanup = new Cleanup();
  const folder = makeServerFolder(cleanup, 'shared');
  let server: EmbeddedPostgres;

  beforeAll(async () => {
    server = await EmbeddedPostgres.start({ folder, makePassword });
  });

  beforeEach(async () => {
    // As another process does.
    server = await EmbeddedPostgres.start({ folder, makePassword });
  });

  afterAll(async () => {
    await (await EmbeddedPostgres.start({ folder, makePassword })).remove();
    await cleanup.run();
  });

  const connect = async (): Promise<Client> => {
    const client = new Client({ connectionString: server.url() });
    await client.connect();
    return client;
  };
  const isRunning = (): Promise<boolean> =>
    connect().then(
      (client) => client.end().then(() => true),
      () => false,
    );

  it('is stopped by the last process, also while PostgreSQL still shows a connection that was closed', async () => {
    const client = await connect();
    afterNext(server as unknown as Internals, 'hasOtherClients', () => client.end());
    await server.stop();
    expect(await isRunning()).toBe(false);
  });

  it('goes on while another process uses it', async () => {
    const client = await connect();
    await server.stop();
    expect(await isRunning()).toBe(true);
    await client.end();
  });

  it('is stopped by one of two processes that stop at the same time', async () => {
    const other = await EmbeddedPostgres.start({ folder, makePassword });
    await Promise.all([server.stop(), other.stop()]);
    expect(await isRunning()).toBe(false);
  });
});
