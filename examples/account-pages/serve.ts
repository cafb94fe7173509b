// Serves the pages on loopback, as a host of your own would: npm run example:account-pages -- --service http://localhost:7701
//
// The service must know the pages: this prints with which variables to start it.
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readCommandLine } from '../../tools/command-line.js';

const USAGE = `Usage: npm run example:account-pages -- [--port N] [--service URL]

  --port N        port of the pages (default 8080)
  --service URL   address of platform-auth, as the browser reaches it (default http://localhost:7701)
  --help          print this text`;

/** The pages are not compiled: they are beside dist/. */
const FOLDER = fileURLToPath(new URL('../../../examples/account-pages/', import.meta.url));
const PAGES = readdirSync(FOLDER).filter((name) => name.endsWith('.html'));
/** What no meta element can say, or must be said before the page is read. */
const HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': "frame-ancestors 'none'",
  'Cache-Control': 'no-cache',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
};

const { port, service } = readCommandLine(USAGE, () => {
  const options = { port: { type: 'string', default: '8080' }, service: { type: 'string', default: '' } } as const;
  const { values } = parseArgs({ options });
  const address = new URL(values.service || 'http://localhost:7701');
  if (!/^https?:$/.test(address.protocol)) throw new Error('--service must be an http or https URL');
  if (!/^[0-9]{1,5}$/.test(values.port)) throw new Error('--port must be a number');
  return { port: Number(values.port), service: address.origin };
});

/** The two changes for a service of another origin: neither touches the script or its hash. */
function readPage(name: string): string {
  return readFileSync(FOLDER + name, 'utf8')
    .replace("connect-src 'self'", `connect-src ${service}`)
    .replace('name="service" content=""', `name="service" content="${service}"`);
}

createServer(({ url = '' }, response) => {
  const [path = ''] = url.split('?');
  const name = PAGES.find((each) => path === `/${each}`);
  if (name) response.writeHead(200, HEADERS).end(readPage(name));
  else response.writeHead(404).end();
}).listen(port, '127.0.0.1', () => {
  const origin = `http://localhost:${port}`;
  console.log(`${origin}/login.html, for ${service}, which must have been started with these variables:\n`);
  console.log(
    `  PASSWORD_RESET_URL=${origin}/reset-password.html EMAIL_VERIFICATION_URL=${origin}/verify-email.html \\`,
  );
  console.log(`  WEBAUTHN_RP_ID=localhost WEBAUTHN_ORIGINS=${origin} CORS_ORIGINS=${origin} npm start`);
});
