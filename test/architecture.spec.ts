import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

const SRC = join(import.meta.dirname, '../src');

/** The floors of docs/architecture.md. Imports go to a lower floor or stay in the room. */
const FLOORS: Readonly<Record<string, number>> = {
  '.': 4,
  admin: 3,
  auth: 3,
  cli: 3,
  maintenance: 3,
  workers: 3,
  users: 2,
  'app-credentials': 2,
  nodes: 2,
  tokens: 2,
  health: 2,
  access: 1,
  audit: 1,
  credentials: 1,
  crypto: 1,
  database: 1,
  'embedded-postgres': 1,
  http: 1,
  logging: 1,
  metrics: 1,
  throttling: 1,
  config: 0,
  common: 0,
};
/** On these floors rooms may import each other without cycles. */
const SHARED_FLOORS = new Set([0, 1]);

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  /** Paths of this project, relative to src. */
  readonly imports: string[];
  readonly packages: string[];
}

const files: SourceFile[] = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.(ts|js)$/.test(path))
  .map((path) => {
    const text = readFileSync(join(SRC, path), 'utf8');
    const statements = text.matchAll(/^(?:import|export)(?:\s[\w\s{},*]*?\sfrom)?\s['"]([^'"]+)['"]/gm);
    const dynamic = text.matchAll(/\b(?:import|require(?:\.resolve)?)\(\s*['"`]([^'"`]+)['"`]/g);
    const specifiers = [...statements, ...dynamic].map((match) => match[1]!);
    const isOwn = (specifier: string): boolean => specifier.startsWith('.');
    const imports = specifiers.filter(isOwn).map((specifier) => relative(SRC, join(SRC, dirname(path), specifier)));
    const packages = specifiers.filter((specifier) => !isOwn(specifier));
    return { path, room: roomOf(path), text, imports, packages };
  });

function roomOf(path: string): string {
  return path.includes('/') ? path.split('/')[0]! : '.';
}

/** The nodes that can reach themselves. */
function circles(edges: Map<string, Set<string>>): string[] {
  const reaches = (from: string): Set<string> => {
    const seen = new Set<string>();
    const pending = [...(edges.get(from) ?? [])];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      if (seen.has(next)) continue;
      seen.add(next);
      pending.push(...(edges.get(next) ?? []));
    }
    return seen;
  };
  return [...edges.keys()].filter((from) => reaches(from).has(from));
}

function importersOf(pattern: RegExp): string[] {
  return files.filter(({ packages }) => packages.some((name) => pattern.test(name))).map(({ path }) => path);
}

function filesWith(pattern: RegExp): string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ path }) => path);
}

describe('src/', () => {
  it('has a floor for every room', () => {
    expect(files.length).toBeGreaterThan(50);
    expect([...new Set(files.map(({ room }) => room))].sort()).toEqual(Object.keys(FLOORS).sort());
  });

  it('imports downwards only', () => {
    const wrong = files.flatMap(({ path, room, imports }) =>
      imports
        .map((to) => ({ path, to, from: FLOORS[room]!, floor: FLOORS[roomOf(to)]!, isOwnRoom: roomOf(to) === room }))
        .filter(
          ({ from, floor, isOwnRoom }) => !isOwnRoom && (floor > from || (floor === from && !SHARED_FLOORS.has(floor))),
        )
        .map(({ to }) => `${path} → ${to}`),
    );
    expect(wrong).toEqual([]);
  });

  it('has no import cycles, between files or between rooms', () => {
    const byFile = new Map(files.map(({ path, imports }) => [path.replace(/\.ts$/, '.js'), new Set(imports)]));
    expect(circles(byFile)).toEqual([]);
    const byRoom = new Map<string, Set<string>>();
    for (const { room, imports } of files) {
      const others = imports.map(roomOf).filter((other) => other !== room);
      byRoom.set(room, new Set([...(byRoom.get(room) ?? []), ...others]));
    }
    expect(circles(byRoom)).toEqual([]);
  });

  it('lets only crypto/ use bcrypt and node:crypto', () => {
    const importers = importersOf(/^(bcrypt|(node:)?crypto)$/);
    expect(importers.length).toBeGreaterThan(0);
    expect(importers.filter((path) => !path.startsWith('crypto/'))).toEqual([]);
  });

  it('uses no other library or global for cryptography', () => {
    expect(filesWith(/globalThis\.crypto|\bcrypto\.(subtle|random|getRandomValues|webcrypto)|Math\.random/)).toEqual(
      [],
    );
    expect(filesWith(/from '(bcryptjs|argon2|@noble\/|jsonwebtoken|jose)/)).toEqual([]);
  });

  it('reads process.env in one file', () => {
    expect(filesWith(/process(\.|\?\.|\[['"`])env\b/)).toEqual(['config/environment.ts']);
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

  it('exports services from its modules, never repositories', () => {
    expect(filesWith(/exports:[^\]]*TypeOrmModule/s)).toEqual([]);
  });

  it('never compares a secret with ===', () => {
    expect(filesWith(/(secret|digest|api_?key|password|token)\w* ===? (?!undefined|null|'|typeof)/i)).toEqual([]);
  });

  it('has files of at most 220 lines', () => {
    const long = files
      .map(({ path, text }) => ({ path, lines: text.split('\n').length }))
      .filter(({ lines }) => lines > 220);
    expect(long).toEqual([]);
  });
});
