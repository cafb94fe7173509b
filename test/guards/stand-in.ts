import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** In the place of platform-auth: answers as it is told, also as no healthy service would. */
export class StandIn {
  /** For one request after the other; the last one is repeated. */
  private answers: Answer[] = [];
  requests = 0;

  private constructor(private readonly server: Server) {}

  static async start(): Promise<StandIn> {
    const server = createServer();
    const standIn = new StandIn(server);
    server.on('request', (request, response) => standIn.answer(request, response));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return standIn;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  answerWith(...answers: Answer[]): void {
    this.answers = answers;
    this.requests = 0;
  }

  stop(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    const answer = this.answers[Math.min(this.requests, this.answers.length - 1)];
    this.requests += 1;
    answer?.(response, request);
  }
}

export const problem =
  (status: number, code: string): Answer =>
  (response) =>
    json(response, status, { type: `/problems/${code}`, status, code }, { 'WWW-Authenticate': 'NodeKey realm="test"' });

export const valid: Answer = (response, request) =>
  json(response, 200, { valid: true, node_id: request.headers['x-request-id'] ?? 'one' });

export const invalidBody: Answer = (response) => json(response, 200, { valid: 'yes' });

/** A body as it is written, with the headers of a verdict. */
export const body =
  (status: number, text: string): Answer =>
  (response) =>
    void response
      .writeHead(status, { 'Content-Type': 'application/problem+json', 'WWW-Authenticate': 'NodeKey realm="test"' })
      .end(text);

export const page =
  (status: number): Answer =>
  (response) =>
    void response.writeHead(status, { 'Content-Type': 'text/html' }).end('<h1>Sign in</h1>');

export const redirect: Answer = (response) => void response.writeHead(307, { Location: '/elsewhere' }).end();

export const breakConnection: Answer = (response) => void response.destroy();

/** Neither a status nor a byte, until the client gives up. */
export const hang: Answer = () => undefined;

function json(response: ServerResponse, status: number, body: object, headers = {}): void {
  response.writeHead(status, { 'Content-Type': 'application/problem+json', ...headers }).end(JSON.stringify(body));
}
