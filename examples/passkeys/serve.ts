// Serves the page, on loopback: npm run example:passkeys -- --port 8080 --service http://localhost:7701
//
// The service must know the page: this prints with which variables to start it.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCommandLine } from '../../tools/command-line.js';

const USAGE = `Usage: npm run example:passkeys -- [--port N] [--service URL]

  --port N        port of the page (default 8080)
  --service URL   address of platform-auth, as the browser reaches it (default http://localhost:7701)
  --help          print this text`;

/** Sources are not compiled: they are beside dist/. */
const FOLDER = fileURLToPath(new URL('../../../examples/passkeys/', import.meta.url));
const JAVASCRIPT = 'text/javascript';

const { port, service } = readCommandLine(USAGE, () => {
  const options = { port: { type: 'string', default: '8080' }, service: { type: 'string', default: '' } } as const;
  const { values } = parseArgs({ options });
  const address = new URL(values.service || 'http://localhost:7701');
  if (!/^https?:$/.test(address.protocol)) throw new Error('--service must be an http or https URL');
  if (!/^[0-9]{1,5}$/.test(values.port)) throw new Error('--port must be a number');
  return { port: Number(values.port), service: address.origin };
});

const read = (name: string): string => readFileSync(FOLDER + name, 'utf8');

const FILES = new Map([
  ['/', { type: 'text/html', read: () => read('index.html') }],
  ['/passkeys.js', { type: JAVASCRIPT, read: () => read('passkeys.js') }],
  // Never from the address of the page: a link could send the password to another service.
  ['/service.js', { type: JAVASCRIPT, read: () => `export const service = ${JSON.stringify(service)};\n` }],
]);

createServer(({ url = '' }, response) => {
  const [path = ''] = url.split('?');
  const file = FILES.get(path);
  if (!file) {
    response.writeHead(404).end();
    return;
  }
  response.setHeader('Content-Type', `${file.type}; charset=utf-8`);
  response.end(file.read());
}).listen(port, '127.0.0.1', () => {
  const page = `http://localhost:${port}`;
  console.log(`${page}, for ${service}, which must have been started with these variables:\n`);
  console.log(`  WEBAUTHN_RP_ID=localhost WEBAUTHN_ORIGINS=${page} CORS_ORIGINS=${page} npm start`);
});
