import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { now, sleep } from './client.js';

/** A proxy between the service and its database that cuts connections, drops or delays bytes, and can switch databases. */
export class TcpProxy {
  /** Milliseconds added to each direction. */
  delayMs = { toDatabase: 0, toService: 0 };
  #sockets = new Set();
  #swallows = false;

  /** @param {number} targetPort on loopback; may be changed while the proxy runs */
  constructor(targetPort) {
    this.targetPort = targetPort;
    this.server = createServer((socket) => this.#join(socket));
  }

  async open() {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return this;
  }

  /** @returns the URL of the same database through the proxy */
  url(databaseUrl) {
    return Object.assign(new URL(databaseUrl), { port: String(this.server.address().port) }).toString();
  }

  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Drops every byte in both directions and keeps connections open; switching it off cuts them, as bytes are missing. */
  blackHole(isOn) {
    this.#swallows = isOn;
    if (!isOn) this.cut();
  }

  close() {
    this.cut();
    this.server.close();
  }

  #join(service) {
    const database = connect(this.targetPort, '127.0.0.1');
    this.#pass(service, database, 'toDatabase');
    this.#pass(database, service, 'toService');
  }

  #pass(from, to, direction) {
    let waiting = 0;
    let last = Promise.resolve();
    this.#sockets.add(from.setNoDelay(true));
    from.on('data', (chunk) => {
      if (this.#swallows) return;
      const delay = this.delayMs[direction];
      if (delay === 0 && waiting === 0) return void to.write(chunk);
      // One chunk after the other, so that a change of the delay does not reorder them.
      const due = now() + delay;
      waiting += 1;
      last = last
        .then(() => sleep(Math.max(0, due - now())))
        .then(() => {
          waiting -= 1;
          if (!this.#swallows && !to.destroyed) to.write(chunk);
        });
    });
    from.on('error', () => undefined);
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
  }
}
