import { readFileSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

const text = (path: string): string => readFileSync(fromRoot(path), 'utf8');

const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<'start' | 'start:prod', string> };
const FLAGS = scripts.start.match(/--\S+/g) ?? [];

describe('the Node.js flags of the start command', () => {
  it('exist', () => {
    expect(FLAGS.length).toBeGreaterThan(0);
  });

  it.each(['Dockerfile', 'docs/operations/production.md', 'docs/platform.md', 'tools/service.ts'])(
    'are the same in %s',
    (path) => {
      for (const flag of FLAGS) expect(text(path)).toContain(flag);
    },
  );

  it('are the same in production', () => {
    expect(scripts['start:prod'].match(/--\S+/g)).toEqual(FLAGS);
  });
});
