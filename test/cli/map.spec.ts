import { readFileSync } from 'node:fs';
import { parsePlatformMap, readPlatformMap } from '../../src/cli/platform/platform-map.js';
import { SHIPPED_MAP, SPECIFIED_PAIRS } from './own-platform.js';

const complaintsAbout = (text: string): string => {
  try {
    parsePlatformMap(text, 'map.yaml');
    return 'none';
  } catch (error) {
    return (error as Error).message;
  }
};

const GOOD = `services:
  auth:
    url: http://127.0.0.1:7701
  ocr:
    url: http://127.0.0.1:7705
    calls:
      - auth
`;

describe('the shipped map', () => {
  const map = readPlatformMap(SHIPPED_MAP);

  it('has every service that the specification names', () => {
    expect(map.services.map(({ name }) => name).sort()).toEqual(
      [
        ...['admin-ui', 'auth', 'command-orchestration', 'configuration', 'logging', 'mcp', 'notification', 'ocr'],
        ...['recipes', 'settings', 'speech-to-text', 'text-to-speech'],
      ].sort(),
    );
  });

  it('has exactly the calls of the specification (section 5, rule 4)', () => {
    const pairs = map.services.flatMap(({ name, calls }) => calls.map((target) => `${name} → ${target}`));
    expect(pairs.sort()).toEqual(SPECIFIED_PAIRS);
  });

  it('gives every service the URL of auth, where it validates credentials', () => {
    for (const { name, urls } of map.services.filter(({ name }) => name !== 'auth'))
      expect({ name, urls }).toMatchObject({
        urls: expect.arrayContaining([{ variable: 'AUTH_URL', url: 'http://127.0.0.1:7701' }]),
      });
  });

  it('is valid with its commented lines for log delivery', () => {
    const text = readFileSync(SHIPPED_MAP, 'utf8').replace('# calls:', 'calls:').replace('# urls:', 'urls:');
    expect(parsePlatformMap(text, 'platform.yaml').services[0]).toMatchObject({
      name: 'auth',
      calls: ['logging'],
      urls: [{ variable: 'LOGGING_SERVICE_URL', url: 'http://127.0.0.1:7707/api/v0/logs' }],
    });
  });
});

describe('a map that gives the address of auth under another name', () => {
  it.each([
    ['', 'http://127.0.0.1:7701'],
    ['      AUTH_URL: auth/inside\n', 'http://127.0.0.1:7701/inside'],
  ])('gives a service that calls auth AUTH_URL too, where verifiers look for it (%j)', (more, url) => {
    const text = `${GOOD}    urls:\n      KEYS_URL: auth/keys\n${more}`;
    const urls = parsePlatformMap(text, 'map.yaml').services[1]?.urls;
    expect(urls).toHaveLength(2);
    expect(urls).toContainEqual({ variable: 'AUTH_URL', url });
  });
});

describe('a map with a mistake', () => {
  it('is parsed without the mistake', () => {
    expect(complaintsAbout(GOOD)).toBe('none');
  });

  it.each([
    ['text that is not YAML', GOOD.replace('- auth', '- [auth'), /map\.yaml:[78] /],
    ['a key twice', `${GOOD}  ocr:\n    url: http://x\n`, /map\.yaml:8 .*unique/],
    ['an unknown key', GOOD.replace('    calls:', '    call:'), /map\.yaml:6 services\.ocr\.call: is not known here/],
    ['no services', 'servces: {}\n', /map\.yaml:1 /],
    ['nothing at all', '', /map\.yaml:1 /],
    [
      'a call to an unknown service',
      GOOD.replace('- auth', '- recipes'),
      /map\.yaml:7 services\.ocr\.calls\.0: recipes is not a s/,
    ],
    ['a call to itself', GOOD.replace('- auth', '- ocr'), /map\.yaml:7 .* does not call itself/],
    ['a call twice', `${GOOD}      - auth\n`, /map\.yaml:8 services\.ocr\.calls\.1: auth is listed twice/],
    ['an address that is none', GOOD.replace('http://127.0.0.1:7705', 'ocr:7705'), /map\.yaml:5 services\.ocr\.url: /],
    ['a line break in an address', GOOD.replace('http://127.0.0.1:7705', '"http://x\\nA=b"'), /map\.yaml:5 /],
    ['no address', GOOD.replace('    url: http://127.0.0.1:7705\n', ''), /map\.yaml:4 services\.ocr\.url: /],
    ['a name that is a path', GOOD.replace('  ocr:', '  ../ocr:'), /map\.yaml:4 services\.\.\.\/ocr: must be a letter/],
    ['no auth', GOOD.replaceAll('auth', 'oauth'), /map\.yaml:1 services: has no auth/],
    [
      'a "yes" that is not a boolean',
      `${GOOD}    admin_endpoints: "yes"\n`,
      /map\.yaml:8 services\.ocr\.admin_endpoints: /,
    ],
    [
      'names that share variables',
      `${GOOD}  OCR:\n    url: http://x\n`,
      /map\.yaml:8 services\.OCR: would have the same/,
    ],
    [
      'the URL of an unknown service',
      `${GOOD}    urls:\n      X_URL: x/y\n`,
      /map\.yaml:9 services\.ocr\.urls\.X_URL: x is not/,
    ],
    [
      'the name of a service with a verifier as an address',
      `${GOOD}    urls:\n      SERVICE_NAME: auth\n`,
      /map\.yaml:9 services\.ocr\.urls\.SERVICE_NAME: is already used/,
    ],
    [
      'another service as AUTH_URL of a service that sends its credentials there',
      `${GOOD}    urls:\n      AUTH_URL: ocr\n`,
      /map\.yaml:9 services\.ocr\.urls\.AUTH_URL: must be an address of auth/,
    ],
    ['a secret as an address', `${GOOD}    urls:\n      SECRET_KEY: auth\n`, /map\.yaml:9 .* is already used/],
  ])('is reported with its line: %s', (_, text, expected) => {
    expect(complaintsAbout(text)).toMatch(expected);
  });

  it('is reported with every other one, in the order of the lines', () => {
    const text = GOOD.replace('http://127.0.0.1:7701', 'nowhere').replace('    calls:', '    call:');
    expect(complaintsAbout(text).match(/map\.yaml:\d+/g)).toEqual(['map.yaml:3', 'map.yaml:6']);
  });

  it('is reported at the anchor when it is used by an alias', () => {
    const text = `${GOOD}  recipes:\n    url: http://127.0.0.1:7706\n    calls: &calls\n      - nobody\n  mcp:\n    url: http://127.0.0.1:7710\n    calls: *calls\n`;
    expect(complaintsAbout(text).match(/map\.yaml:\d+/g)).toEqual(['map.yaml:11', 'map.yaml:11']);
  });
});
