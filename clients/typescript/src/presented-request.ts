/** What a verifier reads of a request: that of Node.js, Express and Fastify, or plain headers in lower case. */
export interface PresentedRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>> | Headers;
  /** Names and values in turn, as Node.js has them: shows headers that arrived twice. */
  readonly rawHeaders?: readonly string[];
}
