import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFile } from '../../../src/foundation/common/durable-file.js';
import { EnvFile } from '../../../src/foundation/config/env-file.js';
import { ConfigFile } from '../../../src/cli/remote/node-config-file.js';

const { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync } = fs;
const { lstatSync, symlinkSync, writeFileSync } = fs;

/** Called before each file system call of the code under test. */
let beforeEachCall: (name: string) => void = () => undefined;
const given = Object.entries(fs).filter(([name, value]) => typeof value === 'function' && name.endsWith('Sync'));
for (const [name, value] of given) {
  const call = value as (...parameters: unknown[]) => unknown;
  Object.assign(fs, { [name]: (...parameters: unknown[]) => (beforeEachCall(name), call(...parameters)) });
}
syncBuiltinESMExports();
afterAll(() => {
  Object.assign(fs, Object.fromEntries(given));
  syncBuiltinESMExports();
});

const PAIR = { nodeId: '01985f4e-7c3a-7b52-9d1e-2f6a8c4b0d11', apiKey: 'pa_node_kJ3-_x' };
const DEVICE_USER = 12_345;
const isRoot = process.getuid?.() === 0;

describe('a file that root replaces in a folder of a less trusted user', () => {
  let folder: string;
  let secret: string;
  const path = (name: string): string => join(folder, name);

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'platform-auth-durable-'));
    const ours = mkdtempSync(join(tmpdir(), 'platform-auth-ours-'));
    secret = join(ours, 'secret');
  });

  afterEach(() => {
    beforeEachCall = () => undefined;
    for (const each of [folder, join(secret, '..')]) rmSync(each, { recursive: true, force: true });
  });

  const written: [string, string, () => void][] = [
    ['a configuration file', '{}', () => ConfigFile.open(path('file.json')).write(PAIR)],
    [
      'an environment file',
      'A=1\n',
      () => {
        const file = EnvFile.read(path('file.json'));
        file.set('KEY', 'value');
        file.write('# new');
      },
    ],
  ];
  const isTheFile = (name: string): boolean => name === 'file.json';

  /** The folder's owner replaces files by links to a secret of root, just before the n-th call. */
  const meddleBefore = (turn: number, isVictim: (name: string) => boolean): (() => number) => {
    let calls = 0;
    beforeEachCall = () => {
      calls += 1;
      if (calls !== turn) return;
      for (const name of readdirSync(folder).filter(isVictim)) {
        rmSync(path(name), { recursive: true });
        symlinkSync(secret, path(name));
      }
    };
    return () => {
      beforeEachCall = () => undefined;
      return calls;
    };
  };

  (isRoot ? describe : describe.skip).each(written)('%s, by root', (_name, content, write) => {
    it.each([
      ['the file', isTheFile],
      ['whatever is beside it', (name: string) => !isTheFile(name)],
    ])(
      'never reveals or changes a file of root, at whatever moment %s is replaced by a link (TOCTOU)',
      (_victim, isVictim) => {
        // The first turn only counts the calls.
        let mostCalls = 0;
        for (let turn = 0; turn <= mostCalls; turn += 1) {
          for (const name of readdirSync(folder)) rmSync(path(name));
          // What an environment file and a JSON file could both hold.
          writeFileSync(secret, '{"root":\n"s3cret"}\n', { mode: 0o600 });
          writeFileSync(path('file.json'), content);
          chownSync(path('file.json'), DEVICE_USER, DEVICE_USER);
          const stop = meddleBefore(turn, isVictim);
          try {
            write();
          } catch {
            // A refusal is fine.
          }
          mostCalls = Math.max(mostCalls, stop());
          expect({ turn, uid: statSync(secret).uid, text: readFileSync(secret, 'utf8') }).toEqual({
            turn,
            uid: 0,
            text: '{"root":\n"s3cret"}\n',
          });
          const given = readdirSync(folder).filter((name) => {
            const { uid } = lstatSync(path(name));
            return lstatSync(path(name)).isFile() && uid !== 0 && readFileSync(path(name), 'utf8').includes('s3cret');
          });
          expect({ turn, given }).toEqual({ turn, given: [] });
        }
        expect(mostCalls).toBeGreaterThan(10);
      },
    );

    it('belongs to the owner of the folder before it has content', () => {
      writeFileSync(path('file.json'), content);
      chownSync(path('file.json'), DEVICE_USER, DEVICE_USER);
      const seen: number[] = [];
      beforeEachCall = () => {
        for (const name of readdirSync(folder).filter((each) => !isTheFile(each))) {
          const { size, uid, mode } = lstatSync(path(name));
          expect(mode & 0o777).toBe(0o600);
          if (size > 0) seen.push(uid);
        }
      };
      write();
      expect(new Set(seen)).toEqual(new Set([DEVICE_USER]));
      beforeEachCall = () => undefined;
      expect(statSync(path('file.json'))).toMatchObject({ uid: DEVICE_USER, gid: DEVICE_USER });
    });
  });

  describe.each(written)('%s', (_name, content, write) => {
    it('is written to a temporary file with an unpredictable name', () => {
      const names = new Set<string>();
      beforeEachCall = () => {
        for (const name of readdirSync(folder).filter((each) => !isTheFile(each))) names.add(name);
      };
      writeFileSync(path('file.json'), content);
      write();
      const namesOnce = names.size;
      writeFileSync(path('file.json'), content);
      write();
      expect(names.size).toBe(2 * namesOnce);
      beforeEachCall = () => undefined;
      expect(readdirSync(folder)).toEqual(['file.json']);
    });

    it('removes only the temporary files of killed processes', () => {
      const dead = spawnSync('true').pid;
      const others = [
        `.file.json.${process.ppid}.x-_Y.new`,
        `.other.json.${dead}.x-_Y.new`,
        `.file.json.bak.${dead}.x.new`,
      ];
      writeFileSync(path(`.file.json.${dead}.x-_Y.new`), 'half a k3y');
      for (const name of others) writeFileSync(path(name), '');
      mkdirSync(path(`.file.json.${dead}.folder.new`));
      write();
      expect(readdirSync(folder).sort()).toEqual([...others, `.file.json.${dead}.folder.new`, 'file.json'].sort());
    });

    it('does not block on a pipe that replaces it', () => {
      let isMade = false;
      beforeEachCall = () => {
        if (isMade) return;
        isMade = true;
        spawnSync('mkfifo', [path('file.json')]);
      };
      expect(write).toThrow(/not a regular file/);
    });

    it('leaves no temporary file when it cannot be renamed', () => {
      writeFileSync(path('file.json'), content);
      let isMade = false;
      beforeEachCall = () => {
        // Only now: a directory that is there earlier is refused before anything is written.
        if (isMade || !new Error().stack!.includes('replaceFile') || readdirSync(folder).length < 2) return;
        isMade = true;
        renameSync(path('file.json'), path('moved.json'));
        mkdirSync(path('file.json'));
      };
      expect(write).toThrow();
      beforeEachCall = () => undefined;
      expect(readdirSync(folder).sort()).toEqual(['file.json', 'moved.json']);
    });
  });

  it.each(['EPERM', 'ENOTSUP'])('is created also where hard links fail with %s', (code) => {
    beforeEachCall = (name) => {
      if (name === 'linkSync') throw Object.assign(new Error('no hard links'), { code });
    };
    expect(createFile(path('new'), Buffer.from('A'))).toBe(true);
    expect(createFile(path('new'), Buffer.from('B'))).toBe(false);
    expect(readFileSync(path('new'), 'utf8')).toBe('A');
    expect(readdirSync(folder)).toEqual(['new']);
  });
});
