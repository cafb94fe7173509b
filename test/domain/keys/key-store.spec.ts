import { DataSource, type EntityManager } from 'typeorm';
import { NODE_KEYS, type NodeKeys } from '../../../src/domain/nodes/nodes.service.js';
import { COMMAND_LINE } from '../../../src/foundation/access/actor.js';
import { useApp } from '../../support/use-app.js';

const ACTS: [string, (keys: NodeKeys, id: string, transaction: EntityManager) => Promise<unknown>][] = [
  ['rotation', (keys, id, within) => keys.rotateKey(id, { overlapHours: 0 }, COMMAND_LINE, within)],
  ['revocation', (keys, id, within) => keys.revokeKey(id, COMMAND_LINE, within)],
  ['change', (keys, id, within) => keys.updateCredential(id, { targets: ['ocr'] }, COMMAND_LINE, within)],
];

describe('the store of keys that replicas cache', () => {
  const app = useApp();

  it.each(ACTS)('refuses a %s in a transaction whose commit would come after the propagation', async (_name, act) => {
    const { nodeId, header } = await app.node();
    const keys = app.nest.get<NodeKeys>(NODE_KEYS, { strict: false });
    // The transaction commits all the same.
    await app.nest.get(DataSource).transaction(async (within) => {
      await expect(act(keys, nodeId, within)).rejects.toThrow('commit, and then await the propagation');
    });
    await app.validateNode(header).expect(200);
  });
});
