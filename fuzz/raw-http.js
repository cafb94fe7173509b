import { connect } from 'node:net';
import fc from 'fast-check';
import { leakOfAnswer, SECRET } from './canaries.js';

const SILENCE_TIMEOUT_MS = 100;
const TIMEOUT_MS = 5_000;

/** Bytes that are not valid HTTP, or that no client library would send. */
export function malformedHttp() {
  const line = fc.constantFrom(
    ...['GET /health/live HTTP/1.1', 'POST /api/v0/auth/login HTTP/1.1', 'POST /internal/validate-node HTTP/1.1'],
    ...[
      'GET /health/live HTTP/1.0',
      'GET /health/live',
      'GET /health/live HTTP/9.9',
      'GET  /health/live  HTTP/1.1',
      '',
    ],
    ...[
      'get /health/live HTTP/1.1',
      'GET http://example.org/health/live HTTP/1.1',
      'OPTIONS * HTTP/1.1',
      'GET * HTTP/1.1',
    ],
    ...[
      'CONNECT example.org:443 HTTP/1.1',
      'PRI * HTTP/2.0',
      `GET /${SECRET}\u0000 HTTP/1.1`,
      `GET /${SECRET} \xff HTTP/1.1`,
    ],
    ...[
      `${SECRET} / HTTP/1.1`,
      `GET /${SECRET}#x HTTP/1.1`,
      'GET ? HTTP/1.1',
      'GET //evil/%2e%2e HTTP/1.1',
      'TRACE / HTTP/1.1',
    ],
  );
  const header = fc.oneof(
    fc.constantFrom(
      ...[
        'Host: a',
        'Host:',
        'Host: a\r\nHost: b',
        `Host: ${SECRET}@x/`,
        'Connection: close',
        'Connection: keep-alive, upgrade',
      ],
      ...['Content-Length: 5', 'Content-Length: -1', 'Content-Length: 5, 6', 'Content-Length: 99999999999999999999'],
      ...[
        'Content-Length: 5\r\nContent-Length: 6',
        'Transfer-Encoding: chunked',
        'Transfer-Encoding: chunked\r\nContent-Length: 3',
      ],
      ...[
        'Transfer-Encoding: identity',
        `Transfer-Encoding: ${SECRET}, chunked`,
        'Transfer-Encoding : chunked',
        'Expect: 100-continue',
      ],
      ...[
        `Expect: ${SECRET}`,
        'Upgrade: websocket',
        'Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk',
        `X-Folded: a\r\n ${SECRET}`,
      ],
      ...[
        `: ${SECRET}`,
        `X y: ${SECRET}`,
        `X-API-Key: ${SECRET}\u0000`,
        `X-Admin-Key: ${SECRET}\r`,
        'Content-Type: application/json',
      ],
      ...[
        `X-API-Key: ${SECRET}\u001b[31m`,
        `X-Long: ${'x'.repeat(20_000)}`,
        'Trailer: X-Admin-Key',
        'TE: trailers',
        SECRET,
      ],
    ),
    fc.string({ unit: 'binary-ascii', maxLength: 30 }).map((text) => `X-Junk: ${text}`),
  );
  const body = fc.constantFrom(
    ...[
      '',
      '{}',
      '{"a":1}',
      '5\r\n{"a":\r\n0\r\n\r\n',
      `ffffffffff\r\n${SECRET}`,
      '-1\r\nx\r\n',
      'zz\r\n',
      '2;x="\r\n{}\r\n0\r\n\r\n',
    ],
    ...[
      '2\r\n{}\r\n0\r\nX-Admin-Key: x\r\n\r\n',
      'GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n',
      `\r\n\r\n${SECRET}`,
      '\u0000\u0001',
    ],
  );
  const message = fc
    .tuple(line, fc.array(header, { maxLength: 4 }), body, fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r'))
    .map(([first, headers, rest, end]) => `${[first, ...headers].join(end)}${end}${end}${rest}`);
  const binary = fc
    .constantFrom('160301020001000', '00', 'ffff', '0d0a0d0a')
    .map((hex) => Buffer.from(hex, 'hex').toString('latin1'));
  return fc.oneof(
    { weight: 12, arbitrary: message },
    { weight: 2, arbitrary: fc.tuple(message, message).map((two) => two.join('')) },
    { weight: 1, arbitrary: fc.tuple(message, fc.nat(60)).map(([text, length]) => text.slice(0, length)) },
    { weight: 1, arbitrary: binary },
  );
}

/** @returns a lane that sends malformed HTTP; each response must be valid HTTP, and none may be a 5xx */
export function rawLane(port, progress) {
  const attempt = async (text) => {
    const answer = await exchange(port, text);
    progress.requests += 1;
    const wrong = wrongIn(answer);
    return wrong && `${wrong}\n  printf %b ${JSON.stringify(escaped(text))} | nc 127.0.0.1 ${port}`;
  };
  return { name: 'malformed HTTP', requests: malformedHttp(), attempt };
}

/** Sends, and waits until the service closes the connection or sends nothing for a while. */
function exchange(port, text) {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(Buffer.from(text, 'latin1')));
    socket.setTimeout(SILENCE_TIMEOUT_MS, () => socket.destroy());
    const timer = setTimeout(() => socket.destroy(), TIMEOUT_MS);
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(answer);
    });
  });
}

/** Closing without a response is allowed: some requests cannot be answered. */
function wrongIn(answer) {
  const heads = [...answer.matchAll(/^HTTP\/1\.1 (\d{3}) [^]*?\r\n\r\n/gm)];
  if (answer !== '' && !answer.startsWith('HTTP/1.1 ')) return `the response is not HTTP: ${answer.slice(0, 100)}`;
  for (const [head, code] of heads) {
    const status = Number(code);
    if (status >= 500) return `the service failed: ${answer.slice(0, 300)}`;
    if (status >= 400 && !/^content-type: application\/problem\+json/im.test(head))
      return `${status} is not a problem document: ${head.trim()}`;
  }
  return leakOfAnswer(400, answer);
}

const escaped = (text) =>
  [...text]
    .map((c) => (/[\x20-\x7e]/.test(c) && c !== '\\' ? c : `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`))
    .join('');
