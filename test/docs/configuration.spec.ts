import { readFileSync } from 'node:fs';
import { schema } from '../../src/config/variables.js';

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** The parts of a zod schema that can contain a default. */
interface Definition {
  readonly type: string;
  readonly defaultValue?: unknown;
  readonly in?: { readonly def: Definition };
}

/** The default as it is written, also when it is transformed afterwards. */
function defaultOf({ type, defaultValue, in: input }: Definition): string | undefined {
  if (type === 'default') return String(defaultValue);
  return input && defaultOf(input.def);
}

const VARIABLES = Object.entries(schema.shape).map(([name, kind]) => ({
  name,
  initial: defaultOf(kind.def as unknown as Definition),
}));

describe('the documents of the configuration', () => {
  /** Cells of the table, by the names in the first one. */
  const rows = read('docs/configuration.md')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) => line.split('|').map((cell) => cell.trim()))
    .map(([, names = '', initial = '']) => ({ names: [...names.matchAll(/[A-Z_]+/g)].map(([name]) => name), initial }));

  it('find the defaults of the schema', () => {
    expect(VARIABLES.length).toBeGreaterThan(50);
    expect(VARIABLES).toContainEqual({ name: 'LOGIN_LIMIT_PER_ACCOUNT', initial: '100/900' });
    expect(VARIABLES).toContainEqual({ name: 'PORT', initial: '7701' });
    expect(VARIABLES).toContainEqual({ name: 'LOG_VALIDATIONS', initial: 'false' });
  });

  it.each(VARIABLES)('docs/configuration.md has a row for $name, with its default', ({ name, initial }) => {
    const row = rows.find(({ names }) => names.includes(name));
    expect(row?.names).toContain(name);
    if (initial !== undefined) expect(row?.initial.replaceAll('`', '')).toBe(initial);
  });

  it.each(VARIABLES)('.env.example explains $name, with its default', ({ name, initial }) => {
    expect(read('.env.example')).toMatch(new RegExp(`^# ${name}=${initial ?? ''}`, 'm'));
    if (initial !== undefined) expect(read('.env.example').split('\n')).toContain(`# ${name}=${initial}`);
  });

  it('name only variables that exist', () => {
    const known = new Set(VARIABLES.map(({ name }) => name));
    const written = [
      ...rows.flatMap(({ names }) => names),
      ...[...read('.env.example').matchAll(/^# ([A-Z_]+)=/gm)].map((match) => match[1]!),
    ];
    expect(written.filter((name) => !known.has(name))).toEqual([]);
  });
});
