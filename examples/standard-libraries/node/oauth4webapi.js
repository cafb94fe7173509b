// A service that exchanges the user's token for one for the next service (RFC 8693) with oauth4webapi.
import { createServer } from 'node:http';
import * as oauth from 'oauth4webapi';

const { AUTH_APP_ID, AUTH_APP_KEY, JWT_ISSUER, PORT = '3000' } = process.env;
if (!AUTH_APP_ID || !AUTH_APP_KEY || !JWT_ISSUER)
  throw new Error('AUTH_APP_ID, AUTH_APP_KEY and JWT_ISSUER are needed');

const issuer = new URL(JWT_ISSUER);
const client = { client_id: AUTH_APP_ID };
const authentication = oauth.ClientSecretBasic(AUTH_APP_KEY);
const options = {
  // platform-auth has plain HTTP for a loopback host only.
  [oauth.allowInsecureRequests]: issuer.protocol === 'http:',
  signal: () => AbortSignal.timeout(3_000),
};
const found = await oauth.discoveryRequest(issuer, { ...options, algorithm: 'oauth2' });
const server = await oauth.processDiscoveryResponse(issuer, found);

/** @throws {oauth.ResponseBodyError} when platform-auth refused; any other error means that it could not be asked */
async function exchange(token, audience, scope) {
  const fields = {
    subject_token: token,
    subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    audience,
    scope,
  };
  const grant = 'urn:ietf:params:oauth:grant-type:token-exchange';
  const answer = await oauth.genericTokenEndpointRequest(server, client, authentication, grant, fields, options);
  return oauth.processGenericTokenEndpointResponse(server, client, answer);
}

async function answer(request, response) {
  const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? [];
  if (token === undefined) return response.writeHead(401, { 'WWW-Authenticate': 'Bearer' }).end();
  // A service of yours names the next service and the scope itself, and keeps the token.
  const { searchParams } = new URL(request.url, 'http://localhost');
  try {
    const issued = await exchange(token, searchParams.get('audience'), searchParams.get('scope'));
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify(issued));
  } catch (thrown) {
    const error = thrown instanceof oauth.ResponseBodyError ? thrown.error : undefined;
    // Only the user's token can be wrong with a request that is always built in the same way.
    response.writeHead(error === 'invalid_request' ? 401 : 503, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ error }));
  }
}

createServer((request, response) => void answer(request, response)).listen(Number(PORT), '127.0.0.1');
