import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Request } from 'express';

// With INTERNAL_PORT the routes of services and operators are served on that port only, so that no rule of a proxy has
// to keep the public away from them. That port serves every route; PORT serves all but these.

const OPERATORS_PATH = /^\/(internal|api\/v0\/admin)(\/|\?|$)/;
const internalSockets = new WeakSet<Socket>();

/** Remembers each connection that the server accepts as one to the internal port. */
export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}

export function isOnInternalPort({ socket }: Request): boolean {
  return internalSockets.has(socket);
}

/** Whether the public port leaves the route out. Short names must have their prefix by now. */
export function isOperatorsPath({ url }: Request): boolean {
  return OPERATORS_PATH.test(url);
}
