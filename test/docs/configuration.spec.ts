import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import { listSchemas, renewConfigurationPage, toEnvExample } from '../../tools/configuration-text.js';
import { fromRoot } from '../support/from-root.js';

const read = (path: string): string => readFileSync(fromRoot(path), 'utf8');

/** When it fails: npm run docs:configuration. */
describe('what the schema generates', () => {
  const page = read('docs/configuration.md');

  it('is .env.example', () => {
    expect(read('.env.example')).toBe(toEnvExample());
  });

  it('are the variables and the rules of docs/configuration.md', () => {
    expect(renewConfigurationPage(page)).toBe(page);
  });

  it.each([
    ['platform.schema.json', parse(read('platform.yaml')), { services: { auth: { url: 'http://a', call: [] } } }],
    ['docs/variables.schema.json', { PORT: '7701', SECRET_KEY_FILE: '/run/key' }, { PROT: '7701' }],
  ])('is %s, which refuses a misspelt name', (path, valid, misspelt) => {
    const text = read(path);
    expect(text).toBe(listSchemas()[path]);
    const isValid = new Ajv2020().compile(JSON.parse(text) as object);
    expect([isValid(valid), isValid.errors]).toEqual([true, null]);
    expect(isValid(misspelt)).toBe(false);
  });

  it.each([
    ['a default', '- `PORT` (default: 7701; 0–65535): Port', '# PORT=7701'],
    [
      'a default that is transformed',
      '- `REQUIRE_VERIFIED_EMAIL` (default: `false`; `true`, `false`): ',
      '# REQUIRE_VERIFIED_EMAIL=false',
    ],
    [
      'a limit',
      '- `LOGIN_LIMIT_PER_ACCOUNT` (default: `100/900`; points/seconds): ',
      '# LOGIN_LIMIT_PER_ACCOUNT=100/900',
    ],
    ['no default', '- `JWT_AUDIENCE` (default: none; 1–200 printable', '# JWT_AUDIENCE=\n'],
    ['a default that depends on others', '- `HOST` (default: `127.0.0.1`; production `0.0.0.0`; ', '# HOST=127.0.0.1'],
    [
      'a secret that may come from a file',
      '- `SECRET_KEY` or `SECRET_KEY_FILE` (default: none; ',
      '# SECRET_KEY_FILE=\n',
    ],
    ['bounds', '; 0–300): How long a rotated refresh token', '(0 to 300)\n# REFRESH_GRACE_SECONDS=10'],
    ['a rule', '- `INTERNAL_PORT` must differ from `PORT`.', '# INTERNAL_PORT=7700'],
  ])('shows %s', (_what, inPage, inExample) => {
    expect(page).toContain(inPage);
    expect(toEnvExample()).toContain(inExample);
  });

  it('has lines of at most 118 characters in .env.example', () => {
    const long = toEnvExample()
      .split('\n')
      .filter((line) => line.length > 118);
    expect(long).toEqual([]);
  });
});
