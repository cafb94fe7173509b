// A service built with Express that verifies access tokens with jose. docs/integrate-standard-libraries.md says what that cannot do.
import express, { type RequestHandler } from 'express';
import { createRemoteJWKSet, errors, jwtVerify } from 'jose';

const { AUTH_JWKS_URL, JWT_ISSUER, KEYS_MAX_AGE_SECONDS = '300', PORT = '3000' } = process.env;
// Without an issuer, jose would accept every one.
if (!AUTH_JWKS_URL || !JWT_ISSUER) throw new Error('AUTH_JWKS_URL and JWT_ISSUER are needed');

const keys = createRemoteJWKSet(new URL(AUTH_JWKS_URL), {
  cacheMaxAge: Number(KEYS_MAX_AGE_SECONDS) * 1_000,
  // A key that is not known is looked for once in that time.
  cooldownDuration: 5_000,
  timeoutDuration: 3_000,
});

const requireUser: RequestHandler = async (request, response, next) => {
  const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
  if (token === undefined) return void response.status(401).set('WWW-Authenticate', 'Bearer').end();
  try {
    const requiredClaims = ['exp', 'sub', 'sid'];
    const { payload } = await jwtVerify(token, keys, { issuer: JWT_ISSUER, algorithms: ['ES256'], requiredClaims });
    response.locals.userId = payload.sub;
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
app.get('/', requireUser, (_request, response) => void response.json({ user_id: response.locals.userId as string }));
app.listen(Number(PORT), '127.0.0.1');
