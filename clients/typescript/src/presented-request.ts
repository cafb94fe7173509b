/** What a verifier reads of a request: one of Node.js, Express or Fastify, or headers alone. */
export interface PresentedRequest {
  /** Headers by name in any case, `Headers` of any implementation, or a Map. */
  readonly headers:
    | Readonly<Record<string, string | readonly string[] | undefined>>
    | { get(name: string): string | readonly string[] | null | undefined };
  /** Names and values in turn, as Node.js has them. Only they show a header that arrived twice. */
  readonly rawHeaders?: readonly string[];
  /**
   * The address of the caller, as the framework knows it behind trusted proxies. Callers share the questions fairly by
   * it.
   */
  readonly ip?: string | undefined;
  /** The socket of Node.js, whose peer counts as the caller when the framework sets no `ip`. */
  readonly socket?: { readonly remoteAddress?: string | undefined };
}

/** Takes the raw headers of Fastify, which show repeated ones, and its `ip`, which knows the trusted proxies. */
export function toPresentedRequest(request: { readonly raw: PresentedRequest; readonly ip: string }): PresentedRequest {
  const { headers, rawHeaders = [] } = request.raw;
  return {
    headers,
    rawHeaders,
    get ip() {
      return request.ip;
    },
  };
}
