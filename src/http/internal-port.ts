import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Request } from 'express';

// With INTERNAL_PORT the routes of services and operators are served on that port only, so that the proxy needs no rule
// to hide them from the public. That port serves every route; PORT serves all others.

const INTERNAL_ONLY_PATH = /^\/(internal|api\/v0\/admin)(\/|\?|$)/;
const internalSockets = new WeakSet<Socket>();

/** Marks each connection of the server as one to the internal port. */
export function markInternal(server: Server): Server {
  return server.on('connection', (socket: Socket) => internalSockets.add(socket));
}

export function isOnInternalPort({ socket }: Request): boolean {
  return internalSockets.has(socket);
}

/** Whether the public port hides the route. Call it after `addPrefix`. */
export function isInternalOnly({ url }: Request): boolean {
  return INTERNAL_ONLY_PATH.test(url);
}
