import type { IncomingMessage } from 'node:http';
import { untilVerdict } from '../../tools/repeat-while.js';
import { serve } from '../support/serve.js';
import { toCredentialVariables } from '../../src/foundation/common/names.js';

type FileVariables = Readonly<Record<string, string | undefined>>;

/** A small service of the platform. It knows the others from its environment file. */
export class StandIn {
  private variables: FileVariables = {};

  private constructor(
    readonly name: string,
    private readonly server: Awaited<ReturnType<typeof serve>>,
  ) {}

  /** Listens. It knows no other service until it has read its file. */
  static async listen(name: string): Promise<StandIn> {
    const server = await serve((request, response) => {
      void standIn.accepts(request).then((isAccepted) => response.writeHead(isAccepted ? 200 : 401).end());
    });
    const standIn = new StandIn(name, server);
    return standIn;
  }

  get url(): string {
    return this.server.url;
  }

  read(variables: FileVariables): void {
    this.variables = variables;
  }

  /** Calls another service as its file says. */
  async call(target: string): Promise<number> {
    const { id, key } = toCredentialVariables(target);
    const url = this.variables[id.replace(/_APP_ID$/, '_URL')]!;
    return this.present(target, url, { id: this.variables[id], key: this.variables[key] });
  }

  /** Calls a service that the map does not allow it, with every credential of its file and without one. */
  async callUninvited(target: string, url: string): Promise<number[]> {
    const ids = Object.keys(this.variables).filter((name) => name.endsWith('_APP_ID'));
    const held = ids.map((name) => ({ id: this.variables[name], key: this.variables[name.replace(/ID$/, 'KEY')] }));
    return Promise.all([...held, { id: undefined, key: undefined }].map((pair) => this.present(target, url, pair)));
  }

  close(): void {
    this.server.close();
  }

  private async present(
    target: string,
    url: string,
    { id, key }: { id: string | undefined; key: string | undefined },
  ): Promise<number> {
    const headers = { ...(id && { 'X-Platform-App-Id': id }), ...(key && { 'X-Platform-App-Key': key }) };
    // This service itself has a route that does what the others do: it validates what it is called with.
    if (target === 'auth') return validate(url, headers, 'auth');
    return (await fetch(url, { method: 'POST', headers })).status;
  }

  /** Forwards what it was called with, and names itself as the target. */
  private async accepts({ headers }: IncomingMessage): Promise<boolean> {
    const names = ['x-platform-app-id', 'x-platform-app-key'];
    const forwarded = names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : []));
    return (await validate(this.variables.AUTH_URL!, Object.fromEntries(forwarded), this.name)) === 200;
  }
}

async function validate(authUrl: string, headers: Record<string, string>, target: string): Promise<number> {
  const ask = async (): Promise<Response> => {
    const answer = await fetch(`${authUrl}/internal/validate-app`, {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify({ target }),
    });
    await answer.body?.cancel();
    return answer;
  };
  return (await untilVerdict(ask)).status;
}
