/** One reason why a credential or a login would be refused. */
export interface Reason {
  readonly code: string;
  readonly detail: string;
  readonly since: string | null;
  readonly request_id: string | null;
}

export function formatReason({ code, detail, since, request_id }: Reason): string {
  const when = since === null ? '' : ` since ${since}`;
  const call = request_id === null ? '' : ` by request ${request_id}`;
  return `  ${code}${when}${call}\n    ${detail}`;
}
