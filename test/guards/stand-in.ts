import type { IncomingMessage, ServerResponse } from 'node:http';
import { serve } from '../support/serve.js';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** In the place of platform-auth: answers as it is told, also as no healthy service would. */
export class StandIn {
  /** For one request after the other; the last one is repeated. */
  private answers: Answer[] = [];
  requests = 0;

  private constructor(private readonly server: Awaited<ReturnType<typeof serve>>) {}

  static async start(): Promise<StandIn> {
    const standIn: StandIn = new StandIn(
      await serve((request, response) => {
        standIn.answers[Math.min(standIn.requests, standIn.answers.length - 1)]?.(response, request);
        standIn.requests += 1;
      }),
    );
    return standIn;
  }

  get url(): string {
    return this.server.url;
  }

  answerWith(...answers: Answer[]): void {
    this.answers = answers;
    this.requests = 0;
  }

  stop(): void {
    this.server.close();
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
