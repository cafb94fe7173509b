import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { ApiClient, AppCredential, NodeCredential, Person } from '../tools/api-client.js';
import { CONNECTIONS } from './measure.js';
import type { Bearer } from './work-messages.js';

const PASSWORD = 'a perfectly fine passphrase';
const sessionClaims = z.object({ sid: z.string() });

/** What the connections present: one credential of each kind for each connection. */
export interface Known {
  readonly nodes: readonly NodeCredential[];
  readonly apps: readonly AppCredential[];
  readonly people: readonly Person[];
  readonly bearers: readonly Bearer[];
}

/** A node, an app and a logged-in user for each connection, made through the service's own routes. */
export async function populate(client: ApiClient): Promise<Known> {
  const numbers = Array.from({ length: CONNECTIONS }, (_, number) => number);
  const people = numbers.map((number) => ({ email: `bench${number}@example.org`, password: PASSWORD }));
  const nodes = await Promise.all(
    numbers.map((number) => client.registerNode({ household_id: randomUUID(), room: 'hall', name: `lamp ${number}` })),
  );
  const apps = await Promise.all(
    numbers.map((number) => client.mintAppCredential({ caller: `caller-${number}`, target: 'auth' })),
  );
  const users = await Promise.all(people.map(async (person) => ({ person, id: (await client.register(person)).id })));
  const bearers = await Promise.all(
    users.map(async ({ person, id }) => {
      const { access_token: token } = await client.logIn(person);
      return { userId: id, sessionId: sessionIdIn(token), token };
    }),
  );
  return { nodes, apps, people, bearers };
}

function sessionIdIn(accessToken: string): string {
  const [, payload = ''] = accessToken.split('.');
  return sessionClaims.parse(JSON.parse(Buffer.from(payload, 'base64url').toString())).sid;
}
