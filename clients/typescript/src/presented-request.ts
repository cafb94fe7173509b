/** What a verifier reads of a request: that of Node.js, Express and Fastify, or headers alone. */
export interface PresentedRequest {
  /** By name in any case, or `Headers` of any implementation, or a Map. */
  readonly headers:
    | Readonly<Record<string, string | readonly string[] | undefined>>
    | { get(name: string): string | readonly string[] | null | undefined };
  /** Names and values in turn, as Node.js has them: shows headers that arrived twice. */
  readonly rawHeaders?: readonly string[];
}
