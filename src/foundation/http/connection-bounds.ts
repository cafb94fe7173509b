import { AsyncResource } from 'node:async_hooks';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Limit of pipelined requests of a connection in progress; they are answered in order (RFC 9112 §9.3.2). */
export const MAX_IN_FLIGHT = 32;
/** Limit of parsed requests that wait, on all connections together. One read of a socket can bring 2,500. */
const MAX_WAITING = 5_000;
/** A client with unread responses must read all of them, or `MIN_READ_BYTES`, in this time. */
const UNREAD_TIMEOUT_MS = 10_000;
const MIN_READ_BYTES = 64 * 1024;
const SWEEP_INTERVAL_MS = 1_000;
/** How often Node.js looks for overdue requests. Its default would let them live up to 30 s longer. */
export const CONNECTIONS_CHECKING_INTERVAL_MS = 1_000;

interface Connection {
  /** Number of requests in progress that arrived before an earlier response was sent. */
  pipelined: number;
  readonly waiting: (() => void)[];
  unreadSince: number | undefined;
  /** Number of bytes that the operating system had accepted at `unreadSince`. */
  readBytes: number;
}

/**
 * Limits what one connection can make a server hold: the number of requests in progress (beyond it the socket is
 * paused), and the time in which its client must read responses.
 * A client that does not pipeline costs one comparison. test/foundation/http/connection-bounds.spec.ts fails without
 * it.
 */
export class ConnectionBounds {
  private readonly connections = new Map<Socket, Connection>();
  private waiting = 0;

  constructor(
    server: Server,
    private readonly serve: RequestListener,
  ) {
    const accept = this.accept.bind(this);
    server.on('request', accept);
    // Ignores an unknown expectation (RFC 9110 §10.1.1 allows it), which Node.js would answer with an empty 417.
    server.on('checkExpectation', accept);
    server.on('connection', (socket) => this.open(socket));
    server.on('listening', () => {
      const sweep = setInterval(() => this.closeUnread(), SWEEP_INTERVAL_MS).unref();
      server.once('close', () => clearInterval(sweep));
    });
  }

  closeUnread(now = performance.now()): void {
    for (const [socket, connection] of this.connections) {
      if (socket.writableLength === 0) {
        connection.unreadSince = undefined;
        continue;
      }
      const read = socket.bytesWritten - socket.writableLength;
      if (connection.unreadSince === undefined || read - connection.readBytes >= MIN_READ_BYTES) {
        connection.unreadSince = now;
        connection.readBytes = read;
      } else if (now - connection.unreadSince >= UNREAD_TIMEOUT_MS) socket.destroy();
    }
  }

  private open(socket: Socket): Connection {
    const connection: Connection = { pipelined: 0, waiting: [], unreadSince: undefined, readBytes: 0 };
    this.connections.set(socket, connection);
    // Pauses again, because Node.js resumes a socket whenever it has read a complete request.
    socket.on('resume', () => {
      if (connection.waiting.length > 0) socket.pause();
    });
    socket.once('close', () => {
      this.connections.delete(socket);
      this.waiting -= connection.waiting.length;
      connection.waiting.length = 0;
    });
    return connection;
  }

  private accept(request: IncomingMessage, response: ServerResponse): void {
    // A response has its socket once all earlier responses are sent, which is the usual case.
    if (response.socket !== null) {
      this.serve(request, response);
      return;
    }
    const connection = this.connections.get(request.socket) ?? this.open(request.socket);
    if (connection.pipelined < MAX_IN_FLIGHT - 1) this.start(connection, request, response);
    else this.wait(connection, request, response);
  }

  private start(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    connection.pipelined += 1;
    response.once('close', () => {
      connection.pipelined -= 1;
      this.startNext(connection, request.socket);
    });
    this.serve(request, response);
  }

  private startNext({ waiting }: Connection, socket: Socket): void {
    const next = waiting.shift();
    if (!next) return;
    this.waiting -= 1;
    next();
    if (waiting.length === 0) socket.resume();
  }

  private wait(connection: Connection, request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request;
    if (socket.destroyed) return;
    this.waiting += 1;
    // Bound to this request's asynchronous context (traces), because the end of another request will start it.
    connection.waiting.push(AsyncResource.bind(() => this.start(connection, request, response)));
    if (this.waiting > MAX_WAITING) socket.destroy();
    else socket.pause();
  }
}
