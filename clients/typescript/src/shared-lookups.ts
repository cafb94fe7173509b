import dns from 'node:dns';
import type { LookupFunction } from 'node:net';

type LookupCallback = Parameters<LookupFunction>[2];

/**
 * Shares one look-up of a name among all that wait for it. A look-up cannot be cancelled, and holds one of the four
 * libuv threads of the process.
 */
export class SharedLookups {
  private readonly pending = new Map<string, Set<LookupCallback>>();

  constructor(private readonly lookup: LookupFunction = dns.lookup) {}

  /** @returns a function that stops waiting; the look-up goes on for the others */
  join(...[hostname, options, callback]: Parameters<LookupFunction>): () => void {
    const key = [hostname, options.family, options.hints, options.all].join(' ');
    const waiting = this.pending.get(key) ?? new Set();
    waiting.add(callback);
    if (!this.pending.has(key)) {
      this.pending.set(key, waiting);
      this.lookup(hostname, options, (...found) => {
        this.pending.delete(key);
        for (const tell of waiting) tell(...found);
      });
    }
    return () => waiting.delete(callback);
  }
}
