import { tokenPair, type ApiClient, type Person } from '../tools/api-client.js';
import { createHttpContestant, type HttpRequest } from './loads.js';
import type { Contestant } from './measure.js';
import type { Known } from './population.js';
import type { Target } from './testbed.js';

const JSON_BODY = { 'Content-Type': 'application/json' };

export function toNodeRequest(id: string, key: string): HttpRequest {
  return { method: 'POST', path: '/internal/validate-node', headers: { 'X-API-Key': `${id}:${key}` } };
}

export function toAppRequest(id: string, key: string): HttpRequest {
  const headers = { 'X-Platform-App-Id': id, 'X-Platform-App-Key': key };
  return { method: 'POST', path: '/internal/validate-app', headers };
}

export function toUserRequest(id: string, token: string): HttpRequest {
  return { method: 'GET', path: `/api/v0/users/${id}`, headers: { Authorization: `Bearer ${token}` } };
}

export function toLoginRequest(person: Person): HttpRequest {
  return { method: 'POST', path: '/api/v0/auth/login', headers: JSON_BODY, body: JSON.stringify(person) };
}

/** Each connection rotates its own session: it presents the token of the last response. */
export function createRefreshing(name: string, target: Target, client: ApiClient, { people }: Known): Contestant {
  let bodies: string[] = [];
  const bodyWith = ({ refresh_token }: { refresh_token: string }): string => JSON.stringify({ refresh_token });
  return createHttpContestant({
    name,
    target,
    request: { method: 'POST', path: '/api/v0/auth/refresh', headers: JSON_BODY },
    // Logs in again, because the last responses of a measurement are lost, and after the grace their predecessors count
    // as reuse.
    prepare: async () => {
      bodies = [];
      // One after the other, because all logins at once would fill the queue of passwords on a busy machine.
      for (const person of people) bodies.push(bodyWith(await client.logIn(person)));
    },
    setupClient: (connection) => {
      connection.setBody(bodies.pop());
      connection.on('body', (answer) => connection.setBody(bodyWith(tokenPair.parse(JSON.parse(answer.toString())))));
    },
  });
}
