import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { eventually } from '../../tools/eventually.js';
import { Subscriber, tell, type Told } from '../domain/events/subscriber.js';
import { Cli, urlOf, useCli } from '../support/cli.js';
import { serve } from '../support/serve.js';
import { UNLEASED } from '../support/settings.js';
import { useApp } from '../support/use-app.js';

describe('platform-auth events', () => {
  const app = useApp({ variables: UNLEASED });
  const cli = useCli(app);

  const deleteUser = async (): Promise<string> => {
    const { id } = await app.user();
    await app.admin.delete(`/users/${id}`).expect(204);
    await tell(app);
    return id;
  };
  const listSubjects = (events: readonly Told[]): string[] => events.map(({ subject }) => subject.id);
  const listServices = async () => (await cli.json<{ items: { service: string }[] }>('events list')).items;

  it('list shows how far each service is, and the oldest event that it has not acknowledged', async () => {
    const [behind, done] = [await Subscriber.to(app, ['user.deleted']), await Subscriber.to(app, ['app.revoked'])];
    const ids = [await deleteUser(), await deleteUser()];
    const items = await listServices();
    expect(items.find(({ service }) => service === behind.name)).toMatchObject({
      types: ['user.deleted'],
      unread: 2,
      unread_deletions: 2,
      last_polled_at: null,
      oldest_unread: { type: 'user.deleted', subject: ids[0] },
    });
    expect(items.find(({ service }) => service === done.name)).toMatchObject({ unread: 0, oldest_unread: null });
    const lines = (await cli.ok('events list')).split('\n');
    expect(lines.find((line) => line.includes(behind.name))).toMatch(/ 2 +│ 2 +│ user\.deleted │/);
  });

  it('tail lists the oldest unread events in the order in which the service reads them', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = [await deleteUser(), await deleteUser(), await deleteUser()];
    type Unread = { items: { id: string; subject: string }[] };
    const { items } = await cli.json<Unread>(`events tail ${subscriber.name}`);
    expect(items.map(({ subject }) => subject)).toEqual(ids);
    const { events } = await subscriber.read();
    expect(items.map(({ id }) => id)).toEqual(events.map(({ id }) => id));
    await subscriber.read({ after: events[0]!.cursor });
    const shown = await cli.ok(`events tail ${subscriber.name} --limit 1`);
    expect(ids.filter((id) => shown.includes(id))).toEqual([ids[1]]);
  });

  it('rewind lets a service read again what happened since a moment, or all that is kept', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = [await deleteUser(), await deleteUser()];
    const { events } = await subscriber.read();
    await subscriber.read({ after: events[1]!.cursor });
    const age = `UPDATE events SET time = now() - interval '2 hours' WHERE subject <> $1`;
    await app.database.query(age, [ids[1]]);
    const hourAgo = new Date(Date.now() - 3_600_000).toISOString();
    expect(await cli.ok(`events rewind ${subscriber.name} --to ${hourAgo}`)).toMatch(
      new RegExp(`^${subscriber.name} reads again at ${hourAgo}.* The next event is user\\.deleted ${ids[1]} of `),
    );
    expect(listSubjects((await subscriber.read()).events)).toEqual([ids[1]]);
    expect(await cli.json(`events rewind ${subscriber.name}`)).toMatchObject({
      service: subscriber.name,
      rewound: true,
    });
    expect(listSubjects((await subscriber.read({ limit: 500 })).events)).toEqual(expect.arrayContaining(ids));
    expect((await cli.run(`events rewind ${subscriber.name} --to yesterday`)).code).toBe(2);
  });

  it('skip passes over one event, or all, and only when it is confirmed', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const ids = [await deleteUser(), await deleteUser(), await deleteUser()];
    expect(await cli.fails(`events skip ${subscriber.name}`)).toContain(`then does not get user.deleted ${ids[0]} of `);
    expect(listSubjects((await subscriber.read()).events)).toEqual(ids);
    expect(await cli.ok(`events skip ${subscriber.name} --yes`)).toContain(`passes over user.deleted ${ids[0]} of `);
    expect(listSubjects((await subscriber.read()).events)).toEqual(ids.slice(1));
    await cli.ok(`events skip ${subscriber.name} --every --yes`);
    expect((await subscriber.read()).events).toEqual([]);
    expect(await cli.ok(`events skip ${subscriber.name} --yes`)).toMatch(/^Nothing is unread/);
  });

  it.each(['skip --yes', 'skip --yes --every'])(
    '%s passes over nothing when the service acknowledges the confirmed event meanwhile',
    async (words) => {
      const subscriber = await Subscriber.to(app, ['user.deleted']);
      const ids = [await deleteUser(), await deleteUser()];
      const { events } = await subscriber.read();
      const { fetch } = globalThis;
      const calls = jest.spyOn(globalThis, 'fetch').mockImplementation(async (url, request) => {
        if (request?.method === 'POST') await subscriber.read({ after: events[0]!.cursor });
        return fetch(url, request);
      });
      const said = await cli.fails('events', ...words.split(' '), subscriber.name).finally(() => {
        calls.mockRestore();
      });
      expect(said).toMatch(
        /event_not_next, 409\)[^]*`platform-auth events list` shows the oldest one\. Run this again only if /,
      );
      expect(listSubjects((await subscriber.read()).events)).toEqual([ids[1]]);
    },
  );

  it('audit export --subject shows when each service took note of a deleted user', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const id = await deleteUser();
    const { events } = await subscriber.read();
    await subscriber.read({ after: events[0]!.cursor });
    const ofDatabase = cli.with({ DATABASE_URL: app.database.url });
    const exportEvents = async (...more: string[]) => {
      const { stdout } = await ofDatabase.run('audit', 'export', '--subject', id, ...more);
      return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as { event: string }]));
    };
    const [receipt, deletion] = await exportEvents();
    expect([receipt, deletion]).toMatchObject([
      { event: 'user.deletion.acknowledged', actor: { id: subscriber.service.appId }, subject: id },
      { event: 'admin.user.deleted', subject: id },
    ]);
    for (const more of [
      ['--limit', '1'],
      ['--actor', subscriber.service.appId],
    ])
      for (const source of [[], ['--from-database']]) expect(await exportEvents(...more, ...source)).toEqual([receipt]);
  });

  it('audit export finds the acts of an operator by name, from the service and from the database', async () => {
    const { id, name } = await app.operator(['nodes'], 'Grace');
    await app.admin.delete(`/operators/${id}`).expect(204);
    const successor = await app.operator(['nodes'], 'grace');
    const registration = { household_id: randomUUID(), room: 'hall', name: 'lamp' };
    const { body } = await successor.as().post('/nodes', registration).expect(201);
    const ofDatabase = cli.with({ DATABASE_URL: app.database.url });
    for (const source of [[], ['--from-database']]) {
      const { code, stdout } = await ofDatabase.run('audit', 'export', '--actor', `operator:${name}`, ...source);
      expect({
        code,
        items: stdout
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as object),
      }).toMatchObject({
        code: 0,
        items: [
          { event: 'admin.node.issued', actor: { id: successor.id, name: 'operator:grace' }, subject: body.node_id },
        ],
      });
    }
    for (const wrong of [
      '--actor alice@example.org',
      '--actor somebody',
      '--subject alice@example.org',
      '--subject operator:grace',
    ]) {
      const { code, stderr } = await ofDatabase.run(`audit export --from-database ${wrong}`);
      expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining('and no e-mail address') });
    }
  });

  /** @param onSecond is called when the second page is requested, with a function that sends it */
  const serveTwoPages = (onSecond: (send: () => void) => void) =>
    serve(({ url }, response) => {
      response.setHeader('Content-Type', 'application/json');
      const isFirst = !url?.includes('cursor=');
      const body = { items: [{ id: 'x'.repeat(2_000) }], next_cursor: isFirst ? 'more' : null };
      const send = (): void => void response.end(JSON.stringify(body));
      if (isFirst) send();
      else onSecond(send);
    });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('audit export leaves no file when %s ends it', async (signal) => {
    let sendSecond: (() => void) | undefined;
    const service = await serveTwoPages((send) => (sendSecond = send));
    const interrupted = new Cli(service.url);
    const file = interrupted.path('audit.ndjson');
    const run = interrupted.start('audit export --json -o audit.ndjson');
    await eventually('the second page is requested', () => sendSecond !== undefined);
    expect(existsSync(file)).toBe(true);
    run.kill(signal);
    await eventually('the file is removed', () => !existsSync(file));
    sendSecond?.();
    const { code, stdout, stderr } = await run.ended;
    expect({ code, stdout, stderr: JSON.parse(stderr) as unknown }).toMatchObject({
      ...{ code: 1, stdout: '', stderr: { code: 'interrupted' } },
    });
    service.close();
  });

  it('audit export to standard output is ended by a signal at once', async () => {
    let isWaiting = false;
    const service = await serveTwoPages(() => (isWaiting = true));
    const run = new Cli(service.url).start('audit export');
    await eventually('the second page is requested', () => isWaiting);
    run.kill('SIGTERM');
    expect(await run.ended).toMatchObject({ code: null, stderr: '' });
    service.close();
  });

  it('audit export leaves no file, and says so, when the disk is full before the next page comes', async () => {
    const service = await serveTwoPages((send) => setTimeout(send, 500));
    const full = new Cli(service.url);
    const { code, stdout, stderr } = await full.runWithFileSize(1, 'audit export --json -o full.ndjson');
    expect({ code, stdout, files: readdirSync(full.folder) }).toEqual({ code: 1, stdout: '', files: [] });
    expect(JSON.parse(stderr)).toMatchObject({ code: 'file_unusable' });
    service.close();
  });

  it('audit takes the address of the service, as every command does', async () => {
    expect(
      await cli.with({ AUTH_URL: 'http://127.0.0.1:9' }).ok('audit', '--url', urlOf(app), '--limit', '1'),
    ).not.toBe('');
  });

  it.each(['export --follow', 'verify --limit 1', 'checkpoint --subject alice@example.org'])(
    'audit %s is refused, because it would ignore the option',
    async (words) => {
      const option = words.split(' ')[1]!;
      const { code, stderr } = await cli.run(`audit ${words}`);
      expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining(`has no option ${option}`) });
      const help = await cli.ok('audit', words.split(' ')[0]!, '--help');
      expect(help).not.toContain(option);
    },
  );

  it.each(['tail', 'rewind', 'skip --yes'])('%s names a service without a subscription as not found', async (words) => {
    const [command, ...options] = words.split(' ');
    expect(await cli.fails('events', command!, 'unknown', ...options)).toMatch(/not found|no such/i);
  });

  it('are refused to an operator without the scope apps, who may read', async () => {
    const subscriber = await Subscriber.to(app, ['user.deleted']);
    const reader = await app.operator(['read']);
    const asReader = cli.with({ ADMIN_API_KEY: reader.key });
    expect(await asReader.ok('events list')).toContain(subscriber.name);
    expect(await asReader.fails(`events rewind ${subscriber.name}`)).toMatch(/apps/);
  });
});
