import { readFileSync } from 'node:fs';
import { AUDIT_EVENT_NAMES, LOG_EVENT_NAMES } from '../../src/foundation/common/security-events.js';
import { fromRoot } from '../support/from-root.js';

/** @returns the events with which the items of a section begin; `.rotated` stands for another end of the name before it */
function listEvents(page: string, heading: string): string[] {
  const [, section = ''] = readFileSync(fromRoot(page), 'utf8').split(`\n## ${heading}\n`);
  const items = section.split(/\n##/)[0]!.matchAll(/^- ((?:`[\w.]+`,?\s+)*`[\w.]+`)[.:]/gm);
  return [...items].flatMap(([, names = '']) => {
    let last = '';
    return Array.from(names.matchAll(/`([\w.]+)`/g), ([, name = '']) => {
      last = name.startsWith('.') ? last.replace(/\.\w+$/, name) : name;
      return last;
    });
  });
}

describe.each([
  ['docs/audit.md', 'What is in it', AUDIT_EVENT_NAMES],
  ['docs/operations/logs.md', 'Security events', LOG_EVENT_NAMES],
])('the events of %s', (page, heading, names) => {
  it('are those that the service writes there, each once', () => {
    expect(listEvents(page, heading).sort()).toEqual([...names].sort());
  });
});
