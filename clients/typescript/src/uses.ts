/** The most uses that the service accepts in one poll. */
const MAX_USES_PER_POLL = 500;
const MAX_AGO_MS = 3_600_000;
/** Bounds the memory while the service is unreachable. */
const MAX_PENDING = 100_000;

export interface Use {
  readonly kind: 'app' | 'node';
  readonly id: string;
  readonly ago_ms: number;
  /** The scope that the call needed, for an app whose key has scopes. */
  readonly scope?: string;
  /** Set for the key before the last rotation. */
  readonly previous?: true;
}

type Used = Omit<Use, 'ago_ms'>;

/** The times of last use, by the use as one text. */
type Pending = Map<string, number>;

/** When remembered keys were last used. The service does not see these uses, so polls report them. */
export class Uses {
  private readonly pending: Readonly<Record<Use['kind'], Pending>> = { app: new Map(), node: new Map() };

  add({ kind, id, scope = '', previous }: Used, atMs: number): void {
    this.put(kind, scope === '' && !previous ? id : `${id} ${scope}${previous ? ' previous' : ''}`, atMs);
  }

  /** Takes out the uses that fit into one poll. */
  take(nowMs: number): { readonly uses: readonly Use[]; putBack: () => void } {
    const taken: { kind: Use['kind']; name: string; atMs: number }[] = [];
    for (const kind of ['app', 'node'] as const) {
      for (const [name, atMs] of this.pending[kind]) {
        if (taken.length >= MAX_USES_PER_POLL) break;
        taken.push({ kind, name, atMs });
        this.pending[kind].delete(name);
      }
    }
    const toUse = ({ kind, name, atMs }: (typeof taken)[number]): Use => {
      const [id = '', scope = '', previous] = name.split(' ');
      const ago_ms = Math.min(MAX_AGO_MS, Math.max(0, Math.floor(nowMs - atMs)));
      return { kind, id, ago_ms, ...(scope !== '' && { scope }), ...(previous !== undefined && { previous: true }) };
    };
    const putBack = (): void => {
      for (const { kind, name, atMs } of taken) if (!this.pending[kind].has(name)) this.put(kind, name, atMs);
    };
    return { uses: taken.map(toUse), putBack };
  }

  private put(kind: Use['kind'], name: string, atMs: number): void {
    const uses = this.pending[kind];
    if (uses.size < MAX_PENDING || uses.has(name)) uses.set(name, atMs);
  }
}
