import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { createRandomId } from '../common/ids.js';
import { toProblemBody } from '../problems/problem-body.js';
import { problems } from '../problems/problems.js';

/**
 * Answers a request that is not valid HTTP, or whose headers are too large, with a problem; then closes the connection.
 */
export function answerUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const problem = error.code === 'HPE_HEADER_OVERFLOW' ? problems.headersTooLarge : problems.malformedRequest;
  const { status } = problem;
  const body = JSON.stringify(toProblemBody(problem, createRandomId()));
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    'Connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
