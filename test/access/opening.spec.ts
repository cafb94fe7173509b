import { randomUUID } from 'node:crypto';
import type { Request } from 'express';
import { Strategy } from 'passport';
import { Doors } from '../../src/access/doors.js';
import { problems } from '../../src/common/problems.js';
import { TestApp } from '../support/test-app.js';

describe('a door that many knock at together', () => {
  let app: TestApp;

  beforeAll(async () => {
    app = await TestApp.start();
  });

  afterAll(async () => {
    await app.stop();
  });

  it('hands each request its own principal, and each refused one its refusal', async () => {
    const nodes = await Promise.all(Array.from({ length: 20 }, () => app.node()));
    const services = await Promise.all(Array.from({ length: 20 }, () => app.service(randomUUID())));
    const users = await Promise.all(Array.from({ length: 20 }, async () => (await app.user()).logsIn()));
    for (let round = 0; round < 10; round++) {
      await Promise.all([
        ...nodes.map(async ({ header, nodeId }) => {
          expect((await app.validateNode(header)).body).toMatchObject({ valid: true, node_id: nodeId });
        }),
        ...nodes.map(async ({ nodeId }) => {
          expect((await app.validateNode(`${nodeId}:wrong`)).status).toBe(401);
        }),
        ...services.map(async ({ headers, appId, caller }) => {
          expect((await app.validateApp(headers)).body).toMatchObject({ app_id: appId, caller });
        }),
        ...users.map(async ({ access_token }) => {
          const { sub } = JSON.parse(Buffer.from(access_token.split('.')[1]!, 'base64url').toString()) as {
            sub: string;
          };
          expect((await app.me(access_token)).body).toMatchObject({ id: sub });
        }),
      ]);
    }
  });
});

describe('a door whose strategy lets nobody in', () => {
  /** What a strategy may say of a request (the package passport-strategy). */
  type Verdict = 'success' | 'fail' | 'pass';

  class Nobody extends Strategy {
    declare success: () => void;
    declare fail: () => void;
    declare pass: () => void;

    constructor(private readonly verdict: Verdict) {
      super();
    }

    override authenticate(): void {
      this[this.verdict]();
    }
  }

  it.each<Verdict>(['success', 'fail', 'pass'])('stays closed when all it says is %s', async (verdict) => {
    const doors = new Doors();
    doors.install('node', new Nobody(verdict));
    const opened = doors.open('node', { headers: {} } as Request);
    await expect(opened).rejects.toMatchObject({ problem: problems.invalidNodeCredentials });
  });

  it('cannot be asked without a strategy', async () => {
    await expect(new Doors().open('node', { headers: {} } as Request)).rejects.toThrow('No strategy');
  });
});
