import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { ApiClient, AppCredential, NodeCredential, Person } from '../tools/api-client.js';
import { readClaims } from '../tools/read-claims.js';
import { CONNECTIONS, type Contestant } from './measure.js';
import type { Bearer } from './work-messages.js';
import type { Service, Testbed } from './testbed.js';

const PASSWORD = 'a perfectly fine passphrase';
const PEOPLE_AT_ONCE = 8;
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
    numbers.map((number) => client.issueNode({ household_id: randomUUID(), room: 'hall', name: `lamp ${number}` })),
  );
  const apps = await Promise.all(
    numbers.map((number) => client.issueAppCredential({ caller: `caller-${number}`, target: 'auth' })),
  );
  const bearers: Bearer[] = [];
  // In batches, because all logins at once would fill the queue of passwords on a busy machine.
  for (let first = 0; first < people.length; first += PEOPLE_AT_ONCE) {
    const some = people.slice(first, first + PEOPLE_AT_ONCE);
    bearers.push(...(await Promise.all(some.map((person) => logInAsNew(client, person)))));
  }
  return { nodes, apps, people, bearers };
}

async function logInAsNew(client: ApiClient, person: Person): Promise<Bearer> {
  const { id: userId } = await client.register(person);
  const { access_token: token } = await client.logIn(person);
  return { userId, sessionId: sessionClaims.parse(readClaims(token)).sid, token };
}

export type Maker = (name: string) => Contestant | Promise<Contestant>;

/** What every maker of a contestant needs. */
export interface Setting {
  readonly testbed: Testbed;
  readonly service: Service;
  readonly client: ApiClient;
  readonly known: Known;
}
