import type { IncomingMessage } from 'node:http';

/**
 * What follows the scheme (RFC 6750 §2.1). Blanks are spaces and tabs (RFC 9110 §5.6.3): `\s` takes a no-break space for one.
 * @returns undefined without a token, and for any other scheme
 */
export function readBearer({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  return /^bearer [ \t]*([^ \t].*)$/i.exec(headers.authorization ?? '')?.[1];
}
