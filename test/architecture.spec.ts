import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fromRoot } from './support/from-root.js';

const SRC = fromRoot('src');

interface SourceFile {
  /** Relative to src. */
  readonly path: string;
  readonly text: string;
}

const files: SourceFile[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.(ts|js)$/.test(path))
  .map((path) => ({ path, text: readFileSync(join(SRC, path), 'utf8') }));

function filesWith(pattern: RegExp): string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ path }) => path);
}

/** Imports are checked by .dependency-cruiser.js. */
describe('src/', () => {
  it('is read', () => {
    expect(files.length).toBeGreaterThan(50);
  });

  it('uses no global for cryptography', () => {
    expect(filesWith(/globalThis\.crypto|\bcrypto\.(subtle|random|getRandomValues|webcrypto)|Math\.random/)).toEqual(
      [],
    );
  });

  it('reads process.env in one file', () => {
    expect(filesWith(/process(\.|\?\.|\[['"`])env\b/)).toEqual(['foundation/config/environment.ts']);
    expect(filesWith(/\benv\b[^;]*=\s*process\b|import[^;]*\benv\b[^;]*from '(node:)?process'/)).toEqual([]);
  });

  it('has no dynamic import with a computed name', () => {
    expect(filesWith(/\b(import|require)\(\s*[^'"`\s]/)).toEqual([]);
  });

  it('has no forwardRef, no barrel, and no relations between entities', () => {
    expect(
      filesWith(/forwardRef|@(OneToMany|ManyToOne|OneToOne|ManyToMany|JoinColumn|JoinTable|RelationId)\(/),
    ).toEqual([]);
    expect(files.filter(({ path }) => /(^|\/)index\.[jt]s$/.test(path))).toEqual([]);
    expect(filesWith(/^export (\*|\{[^}]*\}) from /m)).toEqual([]);
  });

  it('has no enum, because a union of literals names the values', () => {
    expect(filesWith(/^\s*(export )?(declare )?(const )?enum\s/m)).toEqual([]);
  });

  it('exports services from its modules, never repositories', () => {
    expect(filesWith(/exports:[^\]]*TypeOrmModule/s)).toEqual([]);
  });

  it('never compares a secret with ===', () => {
    expect(filesWith(/(secret|digest|api_?key|password|token)\w* ===? (?!undefined|null|'|typeof)/i)).toEqual([]);
  });
});
