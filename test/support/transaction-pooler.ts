import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

const READY_FOR_QUERY = 'Z'.charCodeAt(0);
const BACKEND_KEY = 'K'.charCodeAt(0);
const TERMINATE = 'X'.charCodeAt(0);
const IDLE = 'I'.charCodeAt(0);

interface Client {
  readonly socket: Socket;
  backend: Backend | undefined;
  readonly waiting: Buffer[];
}

interface Backend {
  readonly socket: Socket;
  client: Client | undefined;
}

/**
 * Behaves as PgBouncer does: announces its own process ids, and assigns a session to each client, or, in transaction
 * mode, to each transaction. Each client authenticates with PostgreSQL itself, and its session then joins the pool.
 */
export class TransactionPooler {
  private readonly idle: Backend[] = [];
  private readonly queue: Client[] = [];
  private readonly sockets = new Set<Socket>();
  private readonly server: Server;

  private constructor(
    private readonly target: URL,
    public mode: 'session' | 'transaction',
  ) {
    this.server = createServer((socket) => this.join(socket));
  }

  static async before(databaseUrl: string, mode: 'session' | 'transaction'): Promise<TransactionPooler> {
    const pooler = new TransactionPooler(new URL(databaseUrl), mode);
    await once(pooler.server.listen(0, '127.0.0.1'), 'listening');
    return pooler;
  }

  get url(): string {
    const { port } = this.server.address() as AddressInfo;
    return Object.assign(new URL(this.target), { hostname: '127.0.0.1', port: String(port) }).toString();
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }

  private join(socket: Socket): void {
    const backend: Backend = { socket: connect(Number(this.target.port), this.target.hostname), client: undefined };
    const client: Client = { socket, backend, waiting: [] };
    backend.client = client;
    for (const each of [socket, backend.socket]) {
      this.sockets.add(each.setNoDelay());
      each.on('error', () => undefined).on('close', () => this.sockets.delete(each));
    }
    // The startup message has no type.
    socket.once('data', (startup) => {
      backend.socket.write(startup);
      socket.on(
        'data',
        splitter((message) => this.fromClient(client, message)),
      );
    });
    socket.on('close', () => this.leave(client));
    backend.socket.on(
      'data',
      splitter((message) => this.fromBackend(backend, message)),
    );
    backend.socket.on('close', () => backend.client?.socket.destroy());
  }

  private fromClient(client: Client, message: Buffer): void {
    if (message[0] === TERMINATE) return;
    // Takes the oldest idle session, as server_round_robin of PgBouncer does, so that a client does not keep one by
    // chance.
    client.backend ??= this.idle.shift();
    if (client.backend) {
      client.backend.client = client;
      client.backend.socket.write(message);
    } else {
      client.waiting.push(message);
      if (!this.queue.includes(client)) this.queue.push(client);
    }
  }

  private fromBackend(backend: Backend, message: Buffer): void {
    if (message[0] === BACKEND_KEY) message.writeInt32BE(message.readInt32BE(5) ^ 0x55_55, 5);
    backend.client?.socket.write(message);
    if (this.mode === 'transaction' && message[0] === READY_FOR_QUERY && message[5] === IDLE) this.release(backend);
  }

  private leave(client: Client): void {
    // Closes one session per client, its own if it has one: an unfinished transaction must not reach the next client.
    const backend = client.backend ?? this.idle.shift();
    client.backend = undefined;
    if (!backend) return;
    backend.client = undefined;
    backend.socket.destroy();
  }

  private release(backend: Backend): void {
    if (backend.client) backend.client.backend = undefined;
    backend.client = undefined;
    this.idle.push(backend);
    const next = this.queue.shift();
    for (const message of next?.waiting.splice(0) ?? []) this.fromClient(next!, message);
  }
}

/** Splits a stream of the PostgreSQL protocol into messages: a type, and a length that includes itself. */
function splitter(onMessage: (message: Buffer) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 5 && rest.length >= 1 + rest.readInt32BE(1)) {
      const length = 1 + rest.readInt32BE(1);
      onMessage(rest.subarray(0, length));
      rest = rest.subarray(length);
    }
  };
}
