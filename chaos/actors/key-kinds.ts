import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { EventData, Told } from '../acts.js';
import type { Request } from '../client.js';

/** As the service returned them. */
interface IdAndKey {
  readonly id: string;
  readonly key: string;
}

/** What tells node keys from app keys. */
export interface KeyKind {
  readonly name: string;
  readonly validation: 'validate-node' | 'validate-app';
  /** The door of a verifier. */
  readonly door: 'node' | 'app';
  /** The path below the admin routes. */
  readonly path: string;
  readonly table: string;
  /** Whether the old key outlives the first use of the new one. */
  readonly isShared: boolean;
  /** The body of a request that issues a key. */
  readonly issue: () => EventData;
  /**
   * Reads the response to a request that issued or rotated a key.
   * @throws when the response does not have its form
   */
  readonly read: (body: unknown) => IdAndKey;
  readonly request: (id: string, key: string) => Request;
  /** A change of the credential after which its requests are refused, as after a revocation. */
  readonly restriction: object;
  /** The events that tell what is done to it. */
  readonly told: Readonly<Record<'restricted' | 'revoked', Told>> & {
    /** @param body of the request */
    readonly issued: (body: EventData) => Told;
  };
}

/** Requests of apps need this scope. */
const SCOPE = 'documents:write';

const nodeBody = z.object({ node_id: z.string(), api_key: z.string() });
const appBody = z.object({ app_id: z.string(), app_key: z.string() });

const node: KeyKind = {
  name: 'node',
  validation: 'validate-node',
  door: 'node',
  path: '/nodes',
  table: 'nodes',
  isShared: false,
  issue: () => ({ household_id: randomUUID(), room: 'hall', name: 'lamp' }),
  read: (body) => {
    const { node_id: id, api_key: key } = nodeBody.parse(body);
    return { id, key };
  },
  request: (id, key) => ({ path: '/internal/validate-node', headers: { 'X-API-Key': `${id}:${key}` } }),
  restriction: { targets: ['elsewhere'] },
  told: {
    issued: (body) => ({ 'node.registered': body }),
    restricted: { 'node.changed': {} },
    revoked: { 'node.revoked': {} },
  },
};

const app: KeyKind = {
  name: 'app credential',
  validation: 'validate-app',
  door: 'app',
  path: '/app-credentials',
  table: 'app_credentials',
  isShared: true,
  issue: () => ({ caller: `caller-${randomUUID().slice(0, 13)}`, target: 'recipes' }),
  read: (body) => {
    const { app_id: id, app_key: key } = appBody.parse(body);
    return { id, key };
  },
  request: (id, key) => ({
    path: '/internal/validate-app',
    headers: { 'X-Platform-App-Id': id, 'X-Platform-App-Key': key, 'X-Platform-Scope': SCOPE },
  }),
  restriction: { scopes: ['documents:read'] },
  told: { issued: () => ({}), restricted: {}, revoked: { 'app.revoked': {} } },
};

export const keyKinds = { node, app };
