import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../tools/eventually.js';
import { IS_NIGHTLY } from '../../tools/nightly.js';
import type { ExplanationResponse } from '../../src/api/admin/key-explanation.dto.js';
import { urlOf } from '../support/cli.js';
import type { Device, Service } from '../support/test-app.js';
import { useApp } from '../support/use-app.js';

/** A machine under load does not lose it between two polls. */
const LEASE_MS = 5_000;
/** At 5 ms the calls take half of the CPU of these tests. */
const CALL_INTERVAL_MS = IS_NIGHTLY ? 5 : 50;

interface Replica {
  readonly process: ChildProcess;
  readonly url: string;
}

/** A node that calls each replica that serves, again and again. A service presents its own key with the questions about nodes. */
class Caller {
  readonly statuses: number[] = [];
  readonly serving = new Set<Replica>();
  private rounds = 0;
  private isCalling = true;
  private readonly done: Promise<void>;

  constructor(private readonly node: Device) {
    this.done = this.callOn();
  }

  async stop(): Promise<void> {
    this.isCalling = false;
    await this.done;
  }

  /** @returns when no call of it is under way */
  async leave(replica: Replica): Promise<void> {
    this.serving.delete(replica);
    const { rounds } = this;
    await eventually('its last call has ended', () => this.rounds > rounds);
  }

  async call({ url }: Replica): Promise<number> {
    return (await fetch(url, { headers: { 'X-API-Key': this.node.header } })).status;
  }

  private async callOn(): Promise<void> {
    while (this.isCalling) {
      for (const replica of this.serving) this.statuses.push(await this.call(replica));
      this.rounds += 1;
      await sleep(CALL_INTERVAL_MS);
    }
  }
}

/** Of one language, so that the tests of another one, which mostly wait for leases, run beside them. */
export function testRollingRestart(language: string, command: () => string[]): void {
  describe(`two replicas of a service with the verifier of ${language}`, () => {
    const app = useApp({ variables: { REVOCATION_LEASE_MS: String(LEASE_MS) } });
    const folder = mkdtempSync(join(tmpdir(), 'platform-auth-rolling-'));
    const processes: ChildProcess[] = [];
    let own: Service;
    let caller: Caller;

    // The virtual environment is made once.
    beforeAll(() => void command(), 600_000);

    beforeEach(async () => {
      own = await app.service(undefined, 'auth');
      caller = new Caller(await app.node());
    });

    afterEach(async () => {
      await caller.stop();
      for (const each of processes.splice(0)) each.kill('SIGKILL');
    });

    afterAll(() => rmSync(folder, { recursive: true }));

    /** Serves once it accepts the caller. */
    const start = async (key: Record<string, string>): Promise<Replica> => {
      const [program = '', ...words] = command();
      const variables = {
        PATH: process.env.PATH,
        AUTH_URL: urlOf(app),
        AUTH_APP_ID: own.appId,
        SERVICE_NAME: own.caller,
      };
      const child = spawn(program, words, { env: { ...variables, ...key }, stdio: ['pipe', 'pipe', 'inherit'] });
      processes.push(child);
      const [port] = (await once(child.stdout, 'data')) as [Buffer];
      const replica = { process: child, url: `http://127.0.0.1:${port.toString().trim()}` };
      await eventually('it accepts the caller', async () => (await caller.call(replica)) === 200);
      caller.serving.add(replica);
      return replica;
    };
    const stop = async (replica: Replica): Promise<void> => {
      await caller.leave(replica);
      replica.process.stdin?.end();
      await once(replica.process, 'exit');
    };
    const rotate = async (): Promise<string> =>
      ((await app.admin.post(`/app-credentials/${own.appId}/rotate`).expect(200)).body as { app_key: string }).app_key;
    const finish = () => app.admin.post(`/app-credentials/${own.appId}/finish-rotation`).expect(204);
    const explain = async () =>
      (await app.admin.get(`/app-credentials/${own.appId}/explain`).expect(200)).body as ExplanationResponse;
    /** Each key goes on being accepted, with the polls of the replicas that have it. */
    const bothAreUsed = async (): Promise<void> => {
      const since = app.clock.now().toISOString();
      await eventually('both keys are used', async () => {
        const { current_key_last_accepted_at: current, previous_key_last_accepted_at: previous } = await explain();
        return current !== null && previous !== null && current > since && previous > since;
      });
    };
    const expectNoneRefused = async (): Promise<void> => {
      // After it, the replicas remember nothing by grace of a poll with the old key.
      const end = performance.now() + LEASE_MS;
      const { length } = caller.statuses;
      await eventually('it went on calling', () => performance.now() > end && caller.statuses.length > length + 20);
      await caller.stop();
      expect(caller.statuses.filter((status) => status !== 200)).toEqual([]);
    };

    it('refuse no request while their key is rotated, they restart one by one, and the rotation is finished', async () => {
      const old = { AUTH_APP_KEY: own.appKey };
      const [one, two] = [await start(old), await start(old)];
      const next = { AUTH_APP_KEY: await rotate() };
      await start(next);
      await stop(one);
      await bothAreUsed();
      await start(next);
      await stop(two);
      await finish();
      await expectNoneRefused();
    });

    it('refuse no request while their key is rotated in a file, without a restart', async () => {
      const file = join(folder, 'AUTH_APP_KEY');
      writeFileSync(file, `${own.appKey}\n`);
      for (let replica = 0; replica < 2; replica += 1) await start({ AUTH_APP_KEY_FILE: file });
      const next = await rotate();
      writeFileSync(file, `${next}\n`);
      await finish();
      await eventually('the new key is used', async () => (await explain()).current_key_last_accepted_at !== null);
      await expectNoneRefused();
    });
  });
}
