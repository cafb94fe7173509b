import { replaceControlCharacters } from '../table.js';

/** One reason why a credential or a login would be refused. */
export interface Reason {
  readonly code: string;
  readonly detail: string;
  readonly since: string | null;
  readonly request_id: string | null;
  readonly actor?: string | null;
  /** When it ends by itself. */
  readonly until?: string | null;
  /** The client's, when the reason holds for it alone. */
  readonly address?: string;
}

export function formatReason({ code, detail, since, request_id, actor, until, address }: Reason): string {
  const when = (since === null ? '' : ` since ${since}`) + (until == null ? '' : ` until ${until}`);
  const where = address === undefined ? '' : ` at ${replaceControlCharacters(address)}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  const by = actor == null ? '' : ` of ${replaceControlCharacters(actor)}`;
  return `  ${code}${when}${where}${call}${by}\n    ${detail}`;
}
