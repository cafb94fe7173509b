import type { TestApp } from '../../support/test-app.js';

/** An item of `GET /api/v0/admin/audit-events`. */
export interface Item {
  readonly id: string;
  readonly time: string;
  readonly event: string;
  readonly actor: { door: string; id: string | null; name?: string | null };
  readonly subject: string | null;
  readonly request_id: string | null;
  readonly address: string | null;
  readonly count: number;
  readonly details: Record<string, unknown>;
}

/** The items of one page. */
export async function recorded(app: TestApp, query: Record<string, string> = {}): Promise<Item[]> {
  return (await pageOf(app, query)).items;
}

export async function pageOf(
  app: TestApp,
  query: Record<string, string>,
): Promise<{ items: Item[]; next_cursor: string | null }> {
  const { body } = await app.admin.get(`/audit-events?${new URLSearchParams(query).toString()}`).expect(200);
  return body as { items: Item[]; next_cursor: string | null };
}
