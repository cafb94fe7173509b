import { randomUUID } from 'node:crypto';

/** The differences between node keys and app keys. */
export const kinds = {
  node: {
    name: 'node',
    validation: 'validate-node',
    path: '/nodes',
    table: 'nodes',
    mint: () => ({ household_id: randomUUID(), room: 'hall', name: 'lamp' }),
    idOf: (body) => body.node_id,
    keyOf: (body) => body.api_key,
    request: (id, key) => ({ path: '/internal/validate-node', headers: { 'X-API-Key': `${id}:${key}` } }),
  },
  app: {
    name: 'app credential',
    validation: 'validate-app',
    path: '/app-credentials',
    table: 'app_credentials',
    mint: () => ({ caller: `caller-${randomUUID().slice(0, 13)}`, target: 'recipes' }),
    idOf: (body) => body.app_id,
    keyOf: (body) => body.app_key,
    request: (id, key) => ({
      path: '/internal/validate-app',
      headers: { 'X-Platform-App-Id': id, 'X-Platform-App-Key': key },
    }),
  },
};
