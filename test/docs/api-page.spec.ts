import { readFileSync } from 'node:fs';
import type { OpenAPIObject } from '@nestjs/swagger';
import { toProblemType } from '../../src/problems/problem.filter.js';
import { problems } from '../../src/problems/problems.js';
import { listRoutes, type RouteRow } from '../../tools/api-tables.js';
import { useApp } from '../support/use-app.js';
import { fromRoot } from '../support/from-root.js';

const lines = readFileSync(fromRoot('docs/api.md'), 'utf8').split('\n');

/** The cells of the row whose first cell is this. */
function cellsOf(first: string): string[] {
  const line = lines.find((one) => one.startsWith(`| \`${first}\` |`));
  return (line ?? '').split(' | ').map((cell) => cell.trim());
}

describe('docs/api.md', () => {
  const app = useApp();
  let routes: RouteRow[];

  beforeAll(async () => {
    routes = listRoutes((await app.get('/docs-json').expect(200)).body as OpenAPIObject);
  });

  it('lists each route with its doors, its successes and its errors', () => {
    const common = lines.find((line) => line.startsWith('Every route may also answer')) ?? '';
    for (const { name, doors, successStatuses, problemCodes } of routes) {
      const [, door = '', , success = '', errors = ''] = cellsOf(name);
      expect({ name, door, success }).toEqual({
        name,
        door: doors.join(' or ') || 'open',
        success: successStatuses.join(', '),
      });
      expect({ name, missing: problemCodes.filter((code) => !`${common} ${errors}`.includes(`\`${code}\``)) }).toEqual({
        name,
        missing: [],
      });
    }
  });

  it('lists only routes that exist', () => {
    const listed = lines.flatMap((line) => /^\| `([A-Z]+ \/[^`]*)` \|/.exec(line)?.[1] ?? []);
    expect(listed.sort()).toEqual(routes.map(({ name }) => name).sort());
  });

  it('lists each problem of the catalogue', () => {
    const listed = Object.values(problems).map((problem) => {
      const [, status, code] = cellsOf(toProblemType(problem));
      return { status: Number(status), code: code?.replaceAll('`', '') };
    });
    expect(listed).toEqual(Object.values(problems).map(({ status, code }) => ({ status, code })));
  });
});
