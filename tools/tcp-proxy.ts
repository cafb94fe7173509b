import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { claimPort } from './claim-port.js';

/** `upstream` leads to the server, `downstream` back to the client. */
type Direction = 'upstream' | 'downstream';

/** A proxy before a database or a service that can refuse or cut connections, and swallow or delay bytes. */
export class TcpProxy {
  /** Milliseconds added to each direction. */
  delayMs: Readonly<Record<Direction, number>> = { upstream: 0, downstream: 0 };
  private readonly sockets = new Set<Socket>();
  private readonly forgotten = new Set<Socket>();
  private isBlackHole = false;
  private trigger: string | undefined;
  private lastWords: { answersLeft: number; readonly text: Buffer } | undefined;
  private swallowed = 0;
  private server: Server | undefined;

  private constructor(
    private target: URL,
    readonly port: number,
  ) {}

  static async before(url: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(url), await claimPort());
    await proxy.open();
    return proxy;
  }

  /** The URL of the server, through the proxy. */
  get url(): string {
    return Object.assign(new URL(this.target), { hostname: '127.0.0.1', port: String(this.port) }).toString();
  }

  /** The number of bytes swallowed so far. */
  get swallowedBytes(): number {
    return this.swallowed;
  }

  /** Forwards to another server from now on, as a load balancer does after a failover. */
  redirectTo(url: string): void {
    this.target = new URL(url);
    this.cut();
  }

  /** Accepts connections, on the same port as before. */
  async open(): Promise<void> {
    this.server = createServer((socket) => this.join(socket)).listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
  }

  /** Cuts every connection and refuses new ones. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server?.close(resolve));
    this.cut();
    await closed;
  }

  cut(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  /**
   * Swallows all bytes in both directions without closing. Switching it off cuts the connections, because bytes were
   * lost.
   */
  blackHole(isOn: boolean): void {
    this.isBlackHole = isOn;
    if (!isOn) this.cut();
  }

  /** Swallows all bytes of present connections without closing them, as a firewall does that has lost its state. */
  forgetConnections(): void {
    for (const socket of this.sockets) this.forgotten.add(socket);
  }

  /** Becomes a black hole when this text passes in either direction; the text is swallowed too. */
  blackHoleFrom(text: string): void {
    this.trigger = text;
  }

  /** Appends this text to the n-th answer from now on, in the same packet, and cuts every connection. */
  cutAfterAnswers(n: number, text: Buffer): void {
    this.lastWords = { answersLeft: n, text };
  }

  private join(client: Socket): void {
    const server = connect(Number(this.target.port), this.target.hostname);
    this.pass(client, server, 'upstream');
    this.pass(server, client, 'downstream');
  }

  private pass(from: Socket, to: Socket, direction: Direction): void {
    let waiting = 0;
    let last = Promise.resolve();
    this.sockets.add(from.setNoDelay(true));
    from.on('data', (chunk) => {
      if (this.trigger !== undefined && chunk.includes(this.trigger)) this.isBlackHole = true;
      if (direction === 'downstream' && this.lastWords && --this.lastWords.answersLeft === 0) {
        to.end(Buffer.concat([chunk, this.lastWords.text]), () => this.cut());
        return;
      }
      const delayMs = this.delayMs[direction];
      if (delayMs === 0 && waiting === 0) {
        this.forward(chunk, from, to);
        return;
      }
      // Chunks are sent one after the other, so that a change of the delay does not reorder them.
      const due = performance.now() + delayMs;
      waiting += 1;
      last = last
        .then(() => sleep(Math.max(0, due - performance.now())))
        .then(() => {
          waiting -= 1;
          this.forward(chunk, from, to);
        });
    });
    from.on('error', () => undefined);
    from.on('close', () => {
      this.sockets.delete(from);
      this.forgotten.delete(from);
      to.destroy();
    });
  }

  private forward(chunk: Buffer, from: Socket, to: Socket): void {
    if (this.isBlackHole || this.forgotten.has(from)) this.swallowed += chunk.length;
    else if (!to.destroyed) to.write(chunk);
  }
}
