import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { claimPort } from '../../tools/claim-port.js';
import { Cli } from '../support/cli.js';

const ID = '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11';
const HOUSEHOLD = '5b1c7a9e-0d35-4c8e-9a57-6f0b1f4f2a10';
const REGISTRATION = ['--household', HOUSEHOLD, '--room', 'kitchen', '--name', 'speaker'];

describe('platform-auth, when the response to a change never arrives', () => {
  let service: Server;
  let cli: Cli;

  beforeAll(async () => {
    service = createServer((request, response) => {
      if (request.url === '/internal/validate-node') response.writeHead(200).end();
      else request.socket.destroy();
    });
    await once(service.listen(0, '127.0.0.1'), 'listening');
    cli = new Cli(`http://127.0.0.1:${(service.address() as AddressInfo).port}`);
  });

  afterAll(() => {
    cli.remove();
    service.close();
  });

  it.each<[string[], RegExp]>([
    [
      ['apps', 'rotate', ID],
      /Run this again: a new key made by the lost call is not shown\. The old one is valid until/,
    ],
    [
      ['nodes', 'rotate', ID],
      /Run this again: a new key made by the lost call is not shown\. The old one is valid until/,
    ],
    [['apps', 'revoke', ID, '--yes'], /Run this again: the change is idempotent/],
    [['nodes', 'revoke', ID, '--yes'], /Run this again: the change is idempotent/],
    [['users', 'disable', ID], /Run this again: the change is idempotent/],
    [['nodes', 'register', ...REGISTRATION], new RegExp(`nodes list --household ${HOUSEHOLD}.*revoke it\\. Then run`)],
  ])('%j says what to do next', async (parameters, advice) => {
    const said = await cli.fails(...parameters);
    expect(said).toMatch(/Whether it was done is not known\./);
    expect(said).toMatch(advice);
  });

  it('nodes rotate --config says to run it again, and does not change the file', async () => {
    const path = cli.path('node.json');
    const text = JSON.stringify({ node_id: ID, api_key: 'pa_node_old' });
    writeFileSync(path, text);
    expect(await cli.fails('nodes', 'rotate', ID, '--config', path)).toMatch(
      /not known\.\n.*Run this again: the key in .*node\.json is as valid as before\./,
    );
    expect(readFileSync(path, 'utf8')).toBe(text);
  });

  it('says that nothing was changed when the connection is refused', async () => {
    const unreachable = new Cli(`http://127.0.0.1:${await claimPort()}`);
    const said = await unreachable.fails('apps', 'rotate', ID);
    expect(said).toMatch(/Connection to \S+ refused/);
    expect(said).not.toMatch(/not known|again/);
    unreachable.remove();
  });
});
