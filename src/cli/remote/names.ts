import type { AdminClient } from './admin-client.js';
import { encodeSegment } from './remote-command.js';

export type Kind = 'user' | 'node' | 'app' | 'operator';
type View = Readonly<Record<string, unknown>>;

const PARALLEL = 10;
const SOURCES: Readonly<Record<Kind, { readonly path: string; readonly toName: (view: View) => string }>> = {
  user: { path: '/users', toName: ({ email }) => String(email) },
  node: { path: '/nodes', toName: ({ room, name }) => `${String(room)}/${String(name)}` },
  app: { path: '/app-credentials', toName: ({ caller, target }) => `${String(caller)} → ${String(target)}` },
  operator: { path: '/operators', toName: ({ name }) => `operator:${String(name)}` },
};

export interface Reference {
  readonly kind: Kind;
  readonly id: string;
}

/** Looks up what people call a user, a node or an app credential. Each id is looked up once. */
export class Names {
  private readonly known = new Map<string, string>();

  constructor(private readonly client: AdminClient) {}

  /** Looks up all ids that are not known yet, a few at a time. */
  async learn(references: readonly Reference[]): Promise<void> {
    const unknown = new Map(references.filter(({ id }) => !this.known.has(id)).map((each) => [each.id, each]));
    const open = [...unknown.values()];
    for (let start = 0; start < open.length; start += PARALLEL)
      await Promise.all(open.slice(start, start + PARALLEL).map((reference) => this.lookUp(reference)));
  }

  /** @returns the id itself when it was deleted, or purged */
  get(id: string | null): string {
    return this.known.get(id ?? '') ?? id ?? '';
  }

  private async lookUp({ kind, id }: Reference): Promise<void> {
    const { path, toName } = SOURCES[kind];
    const view = await this.client.find<View>(`${path}/${encodeSegment(id)}`);
    this.known.set(id, view ? toName(view) : id);
  }
}
