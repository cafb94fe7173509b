import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** A proxy between the service and its database that can refuse, cut or swallow connections. */
export class TcpProxy {
  private readonly sockets = new Set<Socket>();
  private readonly forgotten = new Set<Socket>();
  private isBlackHole = false;
  private trigger: string | undefined;
  private swallowed = 0;
  private server: Server | undefined;

  private constructor(
    private target: URL,
    private port: number,
  ) {}

  static async before(databaseUrl: string): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(databaseUrl), 0);
    await proxy.open();
    return proxy;
  }

  get url(): string {
    return Object.assign(new URL(this.target), { hostname: '127.0.0.1', port: String(this.port) }).toString();
  }

  /** The number of bytes swallowed so far. */
  get swallowedBytes(): number {
    return this.swallowed;
  }

  /** Forwards to another database from now on, as a load balancer does after a failover. */
  lead(databaseUrl: string): void {
    this.target = new URL(databaseUrl);
    for (const socket of this.sockets) socket.destroy();
  }

  /** Accepts connections, on the same port as before. */
  async open(): Promise<void> {
    this.server = createServer((socket) => this.join(socket)).listen(this.port, '127.0.0.1');
    await once(this.server, 'listening');
    this.port = (this.server.address() as AddressInfo).port;
  }

  /** Cuts every connection and refuses new ones. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server?.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  /** Swallows every byte in both directions without closing. */
  blackHole(isOn: boolean): void {
    this.isBlackHole = isOn;
    if (isOn) return;
    // The swallowed bytes are lost, so the connections are broken.
    for (const socket of this.sockets) socket.destroy();
  }

  /** Swallows everything on present connections without closing, as a firewall does that lost its state table. */
  forgetConnections(): void {
    for (const socket of this.sockets) this.forgotten.add(socket);
  }

  /** Becomes a black hole when the service sends this text, which is swallowed too. */
  blackHoleFrom(text: string): void {
    this.trigger = text;
  }

  private join(client: Socket): void {
    const database = connect(Number(this.target.port), this.target.hostname);
    const pair = [client, database];
    for (const [from, to] of [pair, [database, client]] as [Socket, Socket][]) {
      this.sockets.add(from);
      from.on('data', (chunk) => {
        if (this.trigger !== undefined && chunk.includes(this.trigger)) this.isBlackHole = true;
        if (this.isBlackHole || this.forgotten.has(from)) this.swallowed += chunk.length;
        else to.write(chunk);
      });
      from.on('error', () => undefined);
      from.on('close', () => {
        this.sockets.delete(from);
        this.forgotten.delete(from);
        to.destroy();
      });
    }
  }
}
