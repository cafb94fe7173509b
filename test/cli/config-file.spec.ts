import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse as parseEnv } from 'dotenv';
import fc from 'fast-check';
import { parse as parseYaml } from 'yaml';
import {
  ConfigFile,
  detectFormat,
  readPair,
  setPair,
  type ConfigFormat,
} from '../../src/cli/remote/node-config-file.js';

const PAIR = { nodeId: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11', apiKey: 'pa_node_kJ3-_x' };
const ID = `"${PAIR.nodeId}"`;
const KEY = `"${PAIR.apiKey}"`;

describe('the content of a configuration file', () => {
  it.each<[string, ConfigFormat, string, string]>([
    ['an empty JSON file', 'json', '', `{\n  "node_id": ${ID},\n  "api_key": ${KEY}\n}\n`],
    ['an empty object', 'json', '{}', `{"node_id": ${ID},"api_key": ${KEY}}`],
    [
      'values that are there, and whatever JSON may hold besides',
      'json',
      '{"big": 12345678901234567890, "f": 1.0, "api_key":"old" , "node_id" : null,"u":"\\u00e9\\/"}',
      `{"big": 12345678901234567890, "f": 1.0, "api_key":${KEY} , "node_id" : ${ID},"u":"\\u00e9\\/"}`,
    ],
    [
      'tabs, nested objects and line ends of Windows',
      'json',
      '{\r\n\t"a": {\r\n\t\t"node_id": "not mine"\r\n\t}\r\n}\r\n',
      `{\r\n\t"a": {\r\n\t\t"node_id": "not mine"\r\n\t},\r\n\t"node_id": ${ID},\r\n\t"api_key": ${KEY}\r\n}\r\n`,
    ],
    ['an object on one line', 'json', '{"a":[1]}', `{"a":[1],"node_id": ${ID},"api_key": ${KEY}}`],
    ['an empty YAML file', 'yaml', '', `node_id: ${ID}\napi_key: ${KEY}\n`],
    [
      'comments, anchors and quotes',
      'yaml',
      "# head\nnode_id:   'old'   # mine\na: &x {b: 'c'}   # odd   spaces\nd: *x\napi_key:\n# foot\n",
      `# head\nnode_id: ${ID} # mine\na: &x { b: 'c' } # odd   spaces\nd: *x\napi_key: ${KEY} # foot\n`,
    ],
    [
      'values that are only commented',
      'yaml',
      'node_id: # fill in\nx: 1',
      `node_id: ${ID} # fill in\nx: 1\napi_key: ${KEY}\n`,
    ],
    ['a key in a block', 'yaml', 'api_key: |\n  old\nx: 1\n', `api_key: ${KEY}\nx: 1\nnode_id: ${ID}\n`],
    ['nothing but comments', 'yaml', '# mine\n', `# mine\n\nnode_id: ${ID}\napi_key: ${KEY}\n`],
    ['an indented mapping', 'yaml', '  a: 1\n', `a: 1\nnode_id: ${ID}\napi_key: ${KEY}\n`],
    ['an empty environment file', 'env', '', `NODE_ID=${PAIR.nodeId}\nAPI_KEY=${PAIR.apiKey}\n`],
    [
      'comments, export, quotes and other names',
      'env',
      '# API_KEY=no\nexport API_KEY="o#ld"  # mine\nMY_API_KEY=x$&\nURL=\'a b\'\nNODE_ID=',
      `# API_KEY=no\nexport API_KEY=${PAIR.apiKey}  # mine\nMY_API_KEY=x$&\nURL='a b'\nNODE_ID=${PAIR.nodeId}`,
    ],
    [
      'a value over several lines',
      'env',
      'A="x\nNODE_ID=other\n"\n',
      `A="x\nNODE_ID=other\n"\nNODE_ID=${PAIR.nodeId}\nAPI_KEY=${PAIR.apiKey}\n`,
    ],
    ['a last line without an end', 'env', 'A=1', `A=1\nNODE_ID=${PAIR.nodeId}\nAPI_KEY=${PAIR.apiKey}\n`],
  ])('keeps everything but the credential: %s', (_name, format, before, after) => {
    expect(setPair(before, format, PAIR)).toBe(after);
    expect(setPair(after, format, PAIR)).toBe(after);
    expect(readPair(after, format)).toEqual(PAIR);
  });

  it.each<[string, ConfigFormat, string]>([
    ['JSON that is cut off', 'json', '{"api_key": "s3cret"'],
    ['JSON with comments', 'json', '{"a": 1} // s3cret'],
    ['a JSON list', 'json', '["s3cret"]'],
    ['YAML that is none', 'yaml', 'a: [s3cret'],
    ['a YAML list', 'yaml', '- s3cret\n'],
    [
      'YAML with too many aliases',
      'yaml',
      `a: &a [s3cret, x, x, x, x, x, x, x, x, x]\nb: &b [${'*a, '.repeat(10)}]\nc: [${'*b, '.repeat(10)}]\n`,
    ],
    ['several YAML documents', 'yaml', 'a: s3cret\n---\nb: 2\n'],
    ['JSON that names the pair twice', 'json', '{"api_key": "s3cret", "api_key": "s3cret"}'],
  ])('is refused, without being quoted, when it is %s', (_name, format, text) => {
    expect(() => setPair(text, format, PAIR)).toThrow(expect.not.stringContaining('s3cret') as string);
    expect(() => setPair(text, format, PAIR)).toThrow(/^its? /);
  });

  it('keeps every other member of any JSON object', () => {
    const objects = fc.dictionary(fc.string(), fc.jsonValue()).filter((value) => !('__proto__' in value));
    fc.assert(
      fc.property(objects, fc.constantFrom(undefined, 2, '\t'), (value, indent) => {
        const changed = JSON.parse(setPair(JSON.stringify(value, null, indent), 'json', PAIR)) as object;
        expect(changed).toEqual({ ...JSON.parse(JSON.stringify(value)), node_id: PAIR.nodeId, api_key: PAIR.apiKey });
      }),
    );
  });

  it.each([
    ['json', 'a.json a.JSON'],
    ['yaml', 'a.yaml a.yml'],
    ['env', 'a.env .env .env.local'],
    [undefined, 'a.conf json'],
  ])('has the format that its name says: %s', (format, names) => {
    for (const name of names.split(' ')) expect([name, detectFormat(`/x/${name}`)]).toEqual([name, format]);
  });
});

describe('a configuration file', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-config-'));
  });

  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  const path = (name: string): string => join(folder, name);
  const isRoot = process.getuid?.() === 0;

  it('is readable by its owner only, and leaves no temporary file', () => {
    writeFileSync(path('old.yaml'), 'volume: 7 # of ten\n', { mode: 0o644 });
    for (const name of ['new.json', 'old.yaml', 'new.env']) {
      ConfigFile.open(path(name)).write(PAIR);
      expect(statSync(path(name)).mode & 0o777).toBe(0o600);
    }
    expect(readdirSync(folder).sort()).toEqual(['new.env', 'new.json', 'old.yaml']);
    expect(parseYaml(readFileSync(path('old.yaml'), 'utf8'))).toEqual({
      volume: 7,
      node_id: PAIR.nodeId,
      api_key: PAIR.apiKey,
    });
    expect(parseEnv(readFileSync(path('new.env')))).toEqual({ NODE_ID: PAIR.nodeId, API_KEY: PAIR.apiKey });
  });

  (isRoot ? it : it.skip)('stays that of its owner when root writes it', () => {
    writeFileSync(path('a.json'), '{}');
    spawnSync('chown', ['12345:12346', path('a.json')]);
    ConfigFile.open(path('a.json')).write(PAIR);
    expect(statSync(path('a.json'))).toMatchObject({ uid: 12345, gid: 12346 });
  });

  it('is refused when it is a link, a directory, in a missing folder, of an unknown format or not text', () => {
    writeFileSync(path('real.json'), '{}');
    symlinkSync(path('real.json'), path('link.json'));
    symlinkSync(path('nowhere.json'), path('dangling.json'));
    mkdirSync(path('folder.json'));
    spawnSync('mkfifo', [path('pipe.json')]);
    writeFileSync(path('bytes.json'), Buffer.from([0x7b, 0xff, 0x7d]));
    const refusals: [string, RegExp][] = [
      ['link.json', /symbolic link/],
      ['dangling.json', /symbolic link/],
      ['folder.json', /directory/],
      ['pipe.json', /regular file/],
      ['none/a.json', /folder does not exist/],
      ['real.json/a.json', /not a folder/],
      ['bytes.json', /UTF-8/],
      ['a.conf', /--format/],
    ];
    const before = readdirSync(folder);
    for (const [name, reason] of refusals) expect(() => ConfigFile.open(path(name))).toThrow(reason);
    expect(readdirSync(folder)).toEqual(before);
    expect(readFileSync(path('real.json'), 'utf8')).toBe('{}');
  });

  it('does not follow a link that replaces it later (TOCTOU)', () => {
    const file = ConfigFile.open(path('a.json'));
    writeFileSync(path('victim.json'), '{}');
    symlinkSync(path('victim.json'), path('a.json'));
    expect(() => file.write(PAIR)).toThrow(/symbolic link/);
    expect(readFileSync(path('victim.json'), 'utf8')).toBe('{}');
  });

  it('keeps what another process wrote between the check and the write', () => {
    writeFileSync(path('a.json'), '{"a": 1}');
    const file = ConfigFile.open(path('a.json'));
    writeFileSync(path('a.json'), '{"a": 2}');
    file.write(PAIR);
    expect(JSON.parse(readFileSync(path('a.json'), 'utf8'))).toMatchObject({ a: 2, node_id: PAIR.nodeId });
  });

  (isRoot ? it.skip : it)('is refused when it, or its folder, may not be written', () => {
    writeFileSync(path('a.json'), '{}', { mode: 0o400 });
    expect(() => ConfigFile.open(path('a.json'))).toThrow(/may not/);
    chmodSync(folder, 0o500);
    expect(() => ConfigFile.open(path('b.json'))).toThrow(/may not/);
    chmodSync(folder, 0o700);
  });
});
