import { z } from 'zod';

const user = z.object({ id: z.string() });
export const tokenPair = z.object({ access_token: z.string(), refresh_token: z.string() });
const nodeCredential = z.object({ node_id: z.string(), api_key: z.string() });
const appCredential = z.object({ app_id: z.string(), app_key: z.string() });

export interface Person {
  readonly email: string;
  readonly password: string;
}

export type User = z.output<typeof user>;
export type TokenPair = z.output<typeof tokenPair>;
export type NodeCredential = z.output<typeof nodeCredential>;
export type AppCredential = z.output<typeof appCredential>;

/** Makes users and keys through the service's own API. Reads only the members of a response that the tools use. */
export class ApiClient {
  private readonly asAdmin: Readonly<Record<string, string>>;

  constructor(
    private readonly url: string,
    adminKey: string,
  ) {
    this.asAdmin = { 'X-Admin-Key': adminKey };
  }

  register(person: Person): Promise<User> {
    return this.post('/api/v0/auth/register', person, user);
  }

  logIn(person: Person): Promise<TokenPair> {
    return this.post('/api/v0/auth/login', person, tokenPair);
  }

  registerNode(node: { household_id: string; room: string; name: string }): Promise<NodeCredential> {
    return this.post('/api/v0/admin/nodes', node, nodeCredential, this.asAdmin);
  }

  mintAppCredential(pair: { caller: string; target: string }): Promise<AppCredential> {
    return this.post('/api/v0/admin/app-credentials', pair, appCredential, this.asAdmin);
  }

  private post<Answer>(path: string, body: object, schema: z.ZodType<Answer>, headers = {}): Promise<Answer> {
    return readJson(this.url + path, schema, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  }
}

/** @throws when the status is not 2xx, or when the body does not have the form of the schema */
export async function readJson<Answer>(
  url: string,
  schema: z.ZodType<Answer>,
  init: RequestInit = {},
): Promise<Answer> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return schema.parse(await response.json());
}
