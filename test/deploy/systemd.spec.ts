import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnvironment } from '../../src/config/environment.js';
import { VARIABLES } from '../support/settings.js';
import { fromRoot } from '../support/from-root.js';

const root = fromRoot('.');
const unit = readFileSync(join(root, 'deploy/systemd/platform-auth.service'), 'utf8');
const read = (name: string): string | undefined => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1];

describe('the systemd unit', () => {
  it('starts the program as npm start does', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { scripts: { start: string } };
    expect(read('ExecStart')).toBe(`/usr/bin/${scripts.start}`);
  });

  it('hears the child process that reports', () => {
    expect([read('Type'), read('NotifyAccess')]).toEqual(['notify', 'all']);
  });

  it('waits for a stop longer than the service takes, and for a start as long as the service does', () => {
    const { shutdownDeadlineMs } = parseEnvironment({
      ...VARIABLES,
      NODE_ENV: 'production',
      DATABASE_URL: 'postgresql://a@127.0.0.1/a',
    });
    expect(Number(read('TimeoutStopSec')) * 1_000).toBeGreaterThan(shutdownDeadlineMs + 2_000);
    expect(read('TimeoutStartSec')).toBe('infinity');
  });
});
