import { Client } from 'pg';
import { eventually } from '../../tools/eventually.js';
import { useApp } from '../support/use-app.js';

const FEED = `SELECT pid FROM pg_stat_activity
  WHERE application_name = 'platform-auth-revocations' AND datname = current_database()`;

describe('a cached key whose revocation fired no trigger', () => {
  const app = useApp({ variables: { REVOCATION_LEASE_MS: '5000', OUTAGE_GRACE_SECONDS: '3600' } });

  it('is evicted when the feed has a new connection, also with an outage grace', async () => {
    const node = await app.node();
    await app.validateNode(node.header).expect(200);
    await app.database.query(`ALTER TABLE nodes DISABLE TRIGGER USER;
      UPDATE nodes SET revoked_at = now(); ALTER TABLE nodes ENABLE TRIGGER USER`);
    await app.validateNode(node.header).expect(200);
    await app.database.query(`SELECT pg_terminate_backend(pid) FROM (${FEED}) AS feed`);
    await eventually('it is refused', async () => (await app.validateNode(node.header)).status === 401);
  });

  it('is evicted by a bulk change, and validations are answered from the cache again', async () => {
    const nodes = [await app.node(), await app.node()];
    for (const { header } of nodes) await app.validateNode(header).expect(200);
    await app.database.query(
      `INSERT INTO nodes (id, household_id, room, name, key_digest, created_at, updated_at)
       SELECT gen_random_uuid(), gen_random_uuid(), 'hall', 'lamp', decode(repeat('00', 32), 'hex'), now(), now()
       FROM generate_series(1, 20000)`,
    );
    await app.database.query('UPDATE nodes SET revoked_at = now() WHERE id <> $1', [nodes[1]!.nodeId]);
    await eventually('it is refused', async () => (await app.validateNode(nodes[0]!.header)).status === 401);
    await app.validateNode(nodes[1]!.header).expect(200);
    const locker = new Client({ connectionString: app.database.url });
    await locker.connect();
    await locker.query('BEGIN; LOCK TABLE nodes IN ACCESS EXCLUSIVE MODE');
    await app.validateNode(nodes[1]!.header).expect(200);
    await locker.end();
    expect(app.log.lines.filter(({ message }) => message === 'revocation_feed_lost')).toHaveLength(1);
  });
});
