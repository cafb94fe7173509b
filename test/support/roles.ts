import { randomBytes } from 'node:crypto';
import { createTestDatabase, type TestDatabase } from './test-database.js';

/** A database whose owner and whose user are two roles, neither of them a superuser. */
export interface TwoRoles {
  /** Its SQL runs as a superuser, as in every test; its URL is that of the service's role. */
  readonly database: TestDatabase;
  readonly ownerUrl: string;
  readonly superuserUrl: string;
  readonly ownerRole: string;
  readonly serviceRole: string;
  drop(): Promise<void>;
}

export async function createTwoRoles(): Promise<TwoRoles> {
  const database = await createTestDatabase({ isEmpty: true });
  const suffix = randomBytes(6).toString('hex');
  const [owner, service] = [`owner_${suffix}`, `service_${suffix}`];
  for (const role of [owner, service]) await database.query(`CREATE ROLE ${role} LOGIN PASSWORD '${suffix}'`);
  const name = new URL(database.url).pathname.slice(1);
  await database.query(`ALTER DATABASE ${name} OWNER TO ${owner}`);
  await database.query(`ALTER SCHEMA public OWNER TO ${owner}`);
  const urlOf = (username: string): string =>
    Object.assign(new URL(database.url), { username, password: suffix }).toString();
  return {
    database: { ...database, url: urlOf(service) },
    ownerUrl: urlOf(owner),
    superuserUrl: database.url,
    ownerRole: owner,
    serviceRole: service,
    drop: async () => {
      await database.drop();
      const server = await createTestDatabase();
      await server.query(`DROP ROLE ${owner}, ${service}`);
      await server.drop();
    },
  };
}
