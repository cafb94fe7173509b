// A service built with Express that other services call on behalf of users, with tokens that are for this service alone (RFC
// 8693). It verifies them with jose; docs/integrate-standard-libraries.md says what that cannot do.
import express, { type RequestHandler } from 'express';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';

const { AUTH_JWKS_URL, JWT_ISSUER, SERVICE_NAME, KEYS_MAX_AGE_SECONDS = '300', PORT = '3000' } = process.env;
if (!AUTH_JWKS_URL || !JWT_ISSUER || !SERVICE_NAME)
  throw new Error('AUTH_JWKS_URL, JWT_ISSUER and SERVICE_NAME are needed');

const keys = createRemoteJWKSet(new URL(AUTH_JWKS_URL), {
  cacheMaxAge: Number(KEYS_MAX_AGE_SECONDS) * 1_000,
  cooldownDuration: 5_000,
  timeoutDuration: 3_000,
});

const required = {
  algorithms: ['ES256'],
  typ: 'at+jwt',
  // The user's own tokens have another issuer, and are refused here.
  issuer: `${JWT_ISSUER}/delegated`,
  // A token for another service may have leaked there.
  audience: SERVICE_NAME,
  requiredClaims: ['exp', 'sub', 'sid', 'act', 'scope'],
};

const requireCaller =
  (scope: string): RequestHandler =>
  async (request, response, next) => {
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
    if (token === undefined) return void response.status(401).set('WWW-Authenticate', 'Bearer').end();
    try {
      const { payload } = await jwtVerify<{ act: { sub: string }; scope: string }>(token, keys, required);
      if (!payload.scope.split(' ').includes(scope)) return void response.status(403).end();
      response.locals.call = { user_id: payload.sub, caller: payload.act.sub };
    } catch (error) {
      if (!isRefusal(error)) return void response.status(503).set('Retry-After', '1').end();
      return void response.status(401).set('WWW-Authenticate', 'Bearer error="invalid_token"').end();
    }
    next();
  };

/** Whether the token is to blame. Any other error means that the keys could not be read. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  return /^ERR_(JWT|JWS|JOSE_ALG|JWKS_NO_MATCHING_KEY)/.test(error.code);
}

const app = express();
app.get(
  '/delegated',
  requireCaller('documents:read'),
  (_request, response) => void response.json(response.locals.call),
);
app.listen(Number(PORT), '127.0.0.1');
