import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { claimPort } from '../../tools/claim-port.js';
import { Cleanup, InterruptedError } from '../../tools/cleanup.js';
import { isResponding, ServerProcess } from '../../tools/server-process.js';

const SERVER = `
  import { createServer } from 'node:http';
  process.on('SIGTERM', () => process.exit(7));
  createServer((request, response) => response.end()).listen(Number(process.env.PORT), '127.0.0.1');`;

describe('a server process', () => {
  let folder: string;
  let cleanup: Cleanup;

  const serverOf = async (code: string): Promise<ServerProcess> => {
    const script = join(folder, 'server.mjs');
    writeFileSync(script, code);
    return new ServerProcess(await claimPort(), { cleanup, script });
  };

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-tools-'));
    cleanup = new Cleanup();
  });
  afterEach(async () => {
    await cleanup.close();
    rmSync(folder, { recursive: true });
  });

  it('can be stopped and started again on the same port', async () => {
    const server = await serverOf(SERVER);
    const { pid } = await server.start();
    expect(await server.stop()).toBe(7);
    expect(await isResponding(server.url)).toBe(false);
    await server.start();
    expect(server.pid).not.toBe(pid);
    expect(await isResponding(server.url)).toBe(true);
  });

  it('is killed by the cleanup, and cannot be started afterwards', async () => {
    const server = await serverOf(SERVER);
    await server.start();
    await cleanup.close();
    expect(server.hasExited).toBe(true);
    await expect(server.start()).rejects.toThrow(InterruptedError);
  });

  it('reports a program that exits before it is ready', async () => {
    const server = await serverOf('process.exit(3);');
    await expect(server.start()).rejects.toThrow(/server\.mjs exited before it was ready/);
  });
});
