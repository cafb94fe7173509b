import { replaceControlCharacters } from '../table.js';

/** One reason why a credential or a login would be refused. */
export interface Reason {
  readonly code: string;
  readonly detail: string;
  readonly since: string | null;
  readonly request_id: string | null;
  readonly actor?: string | null;
}

export function formatReason({ code, detail, since, request_id, actor }: Reason): string {
  const when = since === null ? '' : ` since ${since}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  const by = actor == null ? '' : ` of ${replaceControlCharacters(actor)}`;
  return `  ${code}${when}${call}${by}\n    ${detail}`;
}
