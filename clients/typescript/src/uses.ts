/** Uses that the service accepts in one poll, at most. */
const MAX_USES_PER_POLL = 500;
const MAX_AGO_MS = 3_600_000;
/** Bounds the memory while the service is away. */
const MAX_PENDING = 100_000;

export interface Use {
  readonly kind: 'app' | 'node';
  readonly id: string;
  readonly ago_ms: number;
}

type Pending = Map<string, number>;

/** When remembered keys were last used: the service cannot see it, and is told with the polls. */
export class Uses {
  private readonly pending: Readonly<Record<Use['kind'], Pending>> = { app: new Map(), node: new Map() };

  add(kind: Use['kind'], id: string, atMs: number): void {
    const uses = this.pending[kind];
    if (uses.size < MAX_PENDING || uses.has(id)) uses.set(id, atMs);
  }

  /** Takes out what fits into one poll. */
  take(nowMs: number): { readonly uses: readonly Use[]; putBack: () => void } {
    const taken: { kind: Use['kind']; id: string; atMs: number }[] = [];
    for (const kind of ['app', 'node'] as const) {
      for (const [id, atMs] of this.pending[kind]) {
        if (taken.length >= MAX_USES_PER_POLL) break;
        taken.push({ kind, id, atMs });
        this.pending[kind].delete(id);
      }
    }
    const toUse = ({ kind, id, atMs }: (typeof taken)[number]): Use => {
      return { kind, id, ago_ms: Math.min(MAX_AGO_MS, Math.max(0, Math.floor(nowMs - atMs))) };
    };
    const putBack = (): void => {
      for (const { kind, id, atMs } of taken) if (!this.pending[kind].has(id)) this.add(kind, id, atMs);
    };
    return { uses: taken.map(toUse), putBack };
  }
}
