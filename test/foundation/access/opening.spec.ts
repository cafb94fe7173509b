import { randomUUID } from 'node:crypto';
import type { Request } from 'express';
import { Strategy } from 'passport';
import { Doors } from '../../../src/foundation/access/doors.js';
import { problems } from '../../../src/foundation/problems/problems.js';
import { useApp } from '../../support/use-app.js';

describe.each([
  ['memory', {}],
  ['the database', { REVOCATION_LEASE_MS: '0' }],
])('a door with many concurrent requests, answered from %s', (_from, variables) => {
  const app = useApp({ variables });

  it('gives each request its own principal or its own refusal', async () => {
    const nodes = await Promise.all(Array.from({ length: 20 }, () => app.node()));
    const services = await Promise.all(Array.from({ length: 20 }, () => app.service(randomUUID())));
    const users = await Promise.all(Array.from({ length: 20 }, async () => (await app.user()).logsIn()));
    const revoked = await app.node();
    await app.admin.delete(`/nodes/${revoked.nodeId}`).expect(204);
    const loggedOut = await (await app.user()).logsIn();
    await app.logout(loggedOut.refresh_token).expect(204);
    for (let round = 0; round < 3; round++) {
      await Promise.all([
        app.validateNode(revoked.header).expect(401),
        app.me(loggedOut.access_token).expect(401),
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

describe('a door whose strategy returns no principal', () => {
  /** What a strategy may say of a request (the package passport-strategy). */
  type Verdict = 'success' | 'fail' | 'pass';

  class NoPrincipal extends Strategy {
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

  it.each<Verdict>(['success', 'fail', 'pass'])('stays closed when the strategy reports %s', async (verdict) => {
    const doors = new Doors();
    doors.install('node', new NoPrincipal(verdict));
    const opened = doors.authenticate('node', { headers: {} } as Request);
    await expect(opened).rejects.toMatchObject({ problem: problems.invalidNodeCredentials });
  });

  it('fails when no strategy is installed for it', async () => {
    await expect(new Doors().authenticate('node', { headers: {} } as Request)).rejects.toThrow('No strategy');
  });
});
