import cors from 'cors';
import type { Request, Response } from 'express';

const API = '/api/v0/';
const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'DELETE'];
const REQUEST_HEADERS = ['Authorization', 'Content-Type', 'Idempotency-Key', 'X-Admin-Key', 'X-Request-Id'];
const RESPONSE_HEADERS = [
  'X-Request-Id',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'Location',
  'WWW-Authenticate',
];
const MAX_AGE_SECONDS = 600;

/** @returns whether it has answered the request, which was a preflight */
type CorsPolicy = (request: Request, response: Response) => boolean;

/**
 * Lets browser pages of listed origins call `/api/v0` (Fetch Standard, CORS protocol). Without credentials mode: this
 * service uses no cookies. An origin that is not listed gets the same response without `Access-Control-Allow-Origin`.
 * @param origins compared exactly; without any, no CORS header is sent
 */
export function createCorsPolicy(origins: readonly string[] = []): CorsPolicy | undefined {
  if (origins.length === 0) return undefined;
  const apply = cors({
    origin: [...origins],
    methods: METHODS,
    allowedHeaders: REQUEST_HEADERS,
    exposedHeaders: RESPONSE_HEADERS,
    maxAge: MAX_AGE_SECONDS,
  });
  return (request, response) => {
    const { method, headers, url } = request;
    if (!url.startsWith(API)) return false;
    if (method === 'OPTIONS' && headers['access-control-request-method'] === undefined) return false;
    let isAnswered = true;
    apply(request, response, () => (isAnswered = false));
    return isAnswered;
  };
}
