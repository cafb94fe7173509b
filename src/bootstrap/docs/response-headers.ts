import { EXAMPLES } from '../../common/examples.js';

/** The headers of responses, as components of the OpenAPI document. */
export const RESPONSE_HEADERS = {
  'X-Request-Id': {
    description: 'identifies the request in the logs of this service and in the audit log',
    schema: { type: 'string', format: 'uuid', example: EXAMPLES.id },
  },
  Location: {
    description: 'path of the new resource',
    schema: { type: 'string', format: 'uri-reference', example: `/api/v0/users/${EXAMPLES.id}` },
  },
  'WWW-Authenticate': {
    description: 'challenge of the door that refused the credential (RFC 9110 §11.6.1; RFC 6750 §3 for Bearer)',
    schema: { type: 'string', example: 'Bearer realm="platform-auth"' },
  },
  'Retry-After': {
    description: 'seconds to wait before the next try',
    schema: { type: 'integer', minimum: 1, example: 2 },
  },
  'RateLimit-Policy': {
    description: 'the limit: q tries in w seconds (draft-ietf-httpapi-ratelimit-headers)',
    schema: { type: 'string', example: '"refresh";q=600;w=60' },
  },
  RateLimit: {
    description: 'the remaining quota: r tries in the next t seconds',
    schema: { type: 'string', example: '"refresh";r=0;t=42' },
  },
} as const;

type HeaderName = keyof typeof RESPONSE_HEADERS;

const BY_STATUS: Readonly<Record<string, readonly HeaderName[]>> = {
  '201': ['Location'],
  '401': ['WWW-Authenticate'],
  '429': ['Retry-After', 'RateLimit-Policy', 'RateLimit'],
  '503': ['Retry-After'],
};

/** @returns the headers that every response with this status has */
export function toHeaderNames(status: string): readonly HeaderName[] {
  return ['X-Request-Id', ...(BY_STATUS[status] ?? [])];
}
