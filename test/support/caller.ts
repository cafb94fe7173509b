import { Agent, request, type OutgoingHttpHeaders } from 'node:http';

interface Call {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: object;
}

/** The connection failed before a response. */
export class CallFailed extends Error {
  constructor(
    readonly code: string | undefined,
    /** Whether the connection had already carried a response. */
    readonly wasReused: boolean,
  ) {
    super(`${code ?? 'unknown'} on a ${wasReused ? 'kept' : 'new'} connection`);
  }
}

/** A client with one keep-alive connection, as a service that calls this one has. */
export class Caller {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(private readonly url: string) {}

  /**
   * @returns the status
   * @throws {CallFailed} when there is none
   */
  async call(path: string, { method = 'POST', headers = {}, body }: Call = {}): Promise<number> {
    const type = body ? { 'Content-Type': 'application/json' } : {};
    return new Promise((resolve, reject) => {
      const options = { method, agent: this.agent, headers: { ...type, ...headers } };
      const outgoing = request(this.url + path, options, (answer) => {
        answer.on('error', reject).on('end', () => resolve(answer.statusCode!));
        answer.resume();
      });
      outgoing.on('error', ({ code }: NodeJS.ErrnoException) => reject(new CallFailed(code, outgoing.reusedSocket)));
      outgoing.end(body ? JSON.stringify(body) : undefined);
    });
  }

  hangUp(): void {
    this.agent.destroy();
  }
}
