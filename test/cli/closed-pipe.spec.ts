import { Cli, useCli } from '../support/cli.js';
import { useApp } from '../support/use-app.js';

describe('a command whose reader has ended', () => {
  const app = useApp();
  const cli = useCli(app);

  beforeAll(async () => {
    await (await app.user()).logsIn();
    await app.node();
  });

  it.each<[string[]]>([
    [['users', 'revoke-sessions', '--help']],
    [['audit']],
    [['audit', '--follow', '--since', '1h']],
    [['users', 'list']],
    [['nodes', 'list', '--json']],
  ])('%j ends quietly with exit code 141, as a shell reports SIGPIPE', async (parameters) => {
    const { code, stderr } = await cli.runIntoClosedPipe(...parameters);
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
  });

  it('reports no success of an export that was not read', async () => {
    const onDatabase = cli.with({ DATABASE_URL: app.database.url });
    const { code, stderr } = await onDatabase.runIntoClosedPipe('users', 'export', '--yes');
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' });
  });

  it('says why standard output cannot be written', async () => {
    const full = new Cli('http://127.0.0.1:9').with({ NO_COLOR: '1' });
    const { code, stderr } = await full.runInto('/dev/full', 'users', '--help');
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'Standard output cannot be written: the disk is full.\n' });
    full.remove();
  });
});
