import { readFileSync } from 'node:fs';
import { fromRoot } from '../support/from-root.js';

interface PackageFile {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

const { dependencies, optionalDependencies } = JSON.parse(
  readFileSync(fromRoot('package.json'), 'utf8'),
) as PackageFile;

describe('the decision on libraries', () => {
  const record = readFileSync(fromRoot('docs/decisions/0021-libraries.md'), 'utf8');

  it('names every production dependency', () => {
    const names = [...Object.keys(dependencies), ...Object.keys(optionalDependencies)];
    expect(names.filter((name) => !record.includes(`\`${name}\``))).toEqual([]);
  });
});
