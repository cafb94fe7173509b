import { z } from 'zod';

const user = z.object({ id: z.string() });
export const tokenPair = z.object({ access_token: z.string(), refresh_token: z.string() });
const household = z.object({ id: z.string() });
const nodeCredential = z.object({ node_id: z.string(), api_key: z.string() });
const appCredential = z.object({ app_id: z.string(), app_key: z.string() });

export interface Person {
  readonly email: string;
  readonly password: string;
}

type User = z.output<typeof user>;
export type TokenPair = z.output<typeof tokenPair>;
export type Household = z.output<typeof household>;
export type NodeCredential = z.output<typeof nodeCredential>;
export type AppCredential = z.output<typeof appCredential>;

/** Makes users and keys through the service's own API. It reads only the members of a response that the tools use. */
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

  logOut({ refresh_token }: TokenPair): Promise<unknown> {
    return this.send('POST', '/api/v0/auth/logout', { refresh_token });
  }

  /** The user becomes its admin. */
  createHousehold({ access_token }: TokenPair, name: string): Promise<Household> {
    return this.post('/api/v0/households', { name }, household, { Authorization: `Bearer ${access_token}` });
  }

  issueNode(node: { household_id: string; room: string; name: string }): Promise<NodeCredential> {
    return this.post('/api/v0/admin/nodes', node, nodeCredential, this.asAdmin);
  }

  issueAppCredential(pair: {
    caller: string;
    target: string;
    scopes?: string[];
    for_users?: boolean;
  }): Promise<AppCredential> {
    return this.post('/api/v0/admin/app-credentials', pair, appCredential, this.asAdmin);
  }

  revokeAppCredential({ app_id }: AppCredential): Promise<unknown> {
    return this.send('DELETE', `/api/v0/admin/app-credentials/${app_id}`, undefined, this.asAdmin);
  }

  private async post<Answer>(path: string, body: object, schema: z.ZodType<Answer>, headers = {}): Promise<Answer> {
    const response = await this.send('POST', path, body, headers);
    return schema.parse(await response.json());
  }

  private send(method: string, path: string, body?: object, headers = {}): Promise<Response> {
    return fetchGood(this.url + path, {
      method,
      headers: { 'Content-Type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
  }
}

/** @throws when the status is not 2xx, or when the body does not have the form of the schema */
export async function readJson<Answer>(
  url: string,
  schema: z.ZodType<Answer>,
  init: RequestInit = {},
): Promise<Answer> {
  const response = await fetchGood(url, init);
  return schema.parse(await response.json());
}

async function fetchGood(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response;
}
