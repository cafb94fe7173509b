// Serves the page on http://localhost:8080, or on another port: node examples/passkeys/serve.js 8081
//
// The service must know the page:
//   WEBAUTHN_RP_ID=localhost WEBAUTHN_ORIGINS=http://localhost:8080 CORS_ORIGINS=http://localhost:8080 npm start
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const port = Number(process.argv[2] ?? process.env.PORT ?? 8080);
const FILES = {
  '/': { name: 'index.html', type: 'text/html' },
  '/passkeys.js': { name: 'passkeys.js', type: 'text/javascript' },
};

createServer((request, response) => {
  const file = FILES[new URL(request.url, 'http://localhost').pathname];
  if (!file) return response.writeHead(404).end();
  response.setHeader('Content-Type', `${file.type}; charset=utf-8`);
  return response.end(readFileSync(join(import.meta.dirname, file.name)));
}).listen(port, '127.0.0.1', () => console.log(`http://localhost:${port}`));
