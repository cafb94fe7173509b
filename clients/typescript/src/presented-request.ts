/** What a verifier reads of a request: that of Node.js, Express and Fastify, or headers alone. */
export interface PresentedRequest {
  /** By name in any case, or `Headers` of any implementation, or a Map. */
  readonly headers:
    | Readonly<Record<string, string | readonly string[] | undefined>>
    | { get(name: string): string | readonly string[] | null | undefined };
  /** Names and values in turn, as Node.js has them: shows headers that arrived twice. */
  readonly rawHeaders?: readonly string[];
  /** The address of the caller as the framework knows it behind trusted proxies. Callers share fairly what the service is asked. */
  readonly ip?: string | undefined;
  /** Of Node.js: its peer counts as the caller where the framework tells no `ip`. */
  readonly socket?: { readonly remoteAddress?: string | undefined };
}

/** As Fastify hands it over: its raw headers show what arrived twice, and its `ip` knows the trusted proxies. */
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
