// A replica of the service `recipes`, with the TypeScript verifier. Prints its port; ends with its standard input.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { RefusedError } from '../../clients/typescript/src/errors.js';
import { Verifier } from '../../clients/typescript/src/verifier.js';

const auth = Verifier.fromEnvironment();
const server = createServer((request, response) => {
  auth.verifyNode(request).then(
    () => response.end(),
    (error: unknown) => response.writeHead((error as RefusedError).toResponse().status).end(),
  );
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
process.stdin.resume().on('end', () => process.exit());
