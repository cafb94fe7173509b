import { Cleanup, InterruptedError } from '../../tools/cleanup.js';

describe('the cleanup of a tool', () => {
  let undone: string[];
  let cleanup: Cleanup;
  const undo = (name: string) => (): void => void undone.push(name);

  beforeEach(() => {
    undone = [];
    cleanup = new Cleanup();
  });

  it('runs in reverse order, and each step once', async () => {
    cleanup.defer(undo('folder'));
    await cleanup.acquire(
      () => Promise.resolve('server'),
      (name) => undone.push(name),
    );
    await cleanup.run();
    await cleanup.run();
    expect(undone).toEqual(['server', 'folder']);
  });

  it('continues after a failure and reports it', async () => {
    const failure = new Error('The server is gone.');
    const reported = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    cleanup.defer(undo('folder'));
    cleanup.defer(() => {
      throw failure;
    });
    await cleanup.run();
    expect(undone).toEqual(['folder']);
    expect(reported).toHaveBeenCalledWith(expect.any(String), failure);
    reported.mockRestore();
  });

  it('refuses to start anything after it was closed', async () => {
    await cleanup.close();
    const start = jest.fn(() => Promise.resolve('server'));
    await expect(cleanup.acquire(start, undo('server'))).rejects.toThrow(InterruptedError);
    expect(start).not.toHaveBeenCalled();
  });

  it('waits for pending starts when it is closed, and undoes them', async () => {
    let started: (name: string) => void = () => undefined;
    const starting = new Promise<string>((resolve) => (started = resolve));
    const acquired = cleanup.acquire(() => starting, undo('server'));
    const closed = cleanup.close().then(undo('closed'));
    started('server');
    await acquired;
    await closed;
    expect(undone).toEqual(['server', 'closed']);
  });
});
