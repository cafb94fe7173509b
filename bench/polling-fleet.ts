// Verifiers that only poll, as clients/typescript/src/poller.ts does: one poll at a time on a kept-alive connection,
// every third of the lease less a jitter. HTTP is written by hand on sockets, because thousands share this process, and
// an http.Agent for each would cost more than the service that is measured.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from '../tools/statistics.js';
import type { OwnKey } from './work-messages.js';

const POLLS_PER_LEASE = 3;
const JITTER = 0.2;
/** New connections a second, so that the queue of a listening socket (511) never fills. */
const CONNECTIONS_PER_SECOND = 2_000;
const RECONNECT_DELAY_MS = 500;
const HEAD_END = '\r\n\r\n';

export interface PollCounts {
  readonly polls: number;
  /** Polls without a 200: the connection broke, or the replica had no lease. */
  readonly failed: number;
  /** Polls whose answer came after the lease had ended, so that the verifier had to ask for each request. */
  readonly late: number;
  readonly p50: number;
  readonly p99: number;
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

/** The counts of all verifiers of a fleet. */
class Tally {
  readonly latencies: number[] = [];
  failed = 0;
  late = 0;
  bytesSent = 0;
  bytesReceived = 0;

  summarise(): PollCounts {
    const { latencies, failed, late, bytesSent, bytesReceived } = this;
    const [p50, p99] = [percentile(latencies, 0.5), percentile(latencies, 0.99)];
    const polls = latencies.length;
    return { polls, failed, late, p50, p99, bytesSent: bytesSent / polls, bytesReceived: bytesReceived / polls };
  }
}

interface Fleet {
  readonly count: number;
  /** The keys of the services: verifiers take turns at them, and so at the replicas that they name. */
  readonly keys: readonly OwnKey[];
  readonly leaseMs: number;
  /** Whether each poll reports a use from memory. */
  readonly reportsUse?: boolean;
}

export class PollingFleet {
  private tally = new Tally();
  private readonly verifiers: PollingVerifier[] = [];

  static async connect({ count, keys, leaseMs, reportsUse = false }: Fleet): Promise<PollingFleet> {
    const fleet = new PollingFleet();
    const { verifiers } = fleet;
    for (let index = 0; index < count; index += 1) {
      const own = keys[index % keys.length];
      if (own) verifiers.push(new PollingVerifier(own, leaseMs, reportsUse, () => fleet.tally));
      if (verifiers.length % (CONNECTIONS_PER_SECOND / 10) === 0) await sleep(100);
    }
    // Connecting and the first polls, which bring a reset, are not what a poll costs.
    await sleep(1_000 + leaseMs / POLLS_PER_LEASE);
    return fleet;
  }

  async measure(seconds: number): Promise<PollCounts> {
    this.tally = new Tally();
    await sleep(seconds * 1_000);
    return this.tally.summarise();
  }

  close(): void {
    for (const verifier of this.verifiers) verifier.close();
  }
}

class PollingVerifier {
  private socket: Socket | undefined;
  private timer: NodeJS.Timeout;
  private cursor: string | undefined;
  private received = '';
  private sentAtMs = 0;
  private leasedUntilMs = 0;
  private isClosed = false;
  private readonly head: string;
  private readonly port: number;

  constructor(
    private readonly own: OwnKey,
    private readonly leaseMs: number,
    private readonly reportsUse: boolean,
    private readonly getTally: () => Tally,
  ) {
    const { host, port } = new URL(own.url);
    this.port = Number(port);
    this.head = [
      'POST /internal/changes HTTP/1.1',
      `Host: ${host}`,
      'Connection: keep-alive',
      'Content-Type: application/json',
      `X-Platform-App-Id: ${own.appId}`,
      `X-Platform-App-Key: ${own.appKey}`,
      'Content-Length: ',
    ].join('\r\n');
    this.timer = setTimeout(() => this.poll(), (Math.random() * leaseMs) / POLLS_PER_LEASE);
  }

  close(): void {
    this.isClosed = true;
    clearTimeout(this.timer);
    this.socket?.destroy();
  }

  private open(): Socket {
    const socket = connect({ host: '127.0.0.1', port: this.port, noDelay: true }).setEncoding('latin1');
    socket.on('data', (text: string) => this.receive(text));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.socket = undefined;
      if (this.isClosed) return;
      this.getTally().failed += 1;
      this.scheduleIn(RECONNECT_DELAY_MS);
    });
    return socket;
  }

  private poll(): void {
    this.socket ??= this.open();
    const used = this.reportsUse ? [{ kind: 'app', id: this.own.appId, ago_ms: 50 }] : undefined;
    const body = JSON.stringify({ cursor: this.cursor, used });
    const request = `${this.head}${body.length}${HEAD_END}${body}`;
    this.received = '';
    this.sentAtMs = performance.now();
    this.getTally().bytesSent += request.length;
    this.socket.write(request, 'latin1');
  }

  private receive(text: string): void {
    this.received += text;
    const bodyAt = this.received.indexOf(HEAD_END) + HEAD_END.length;
    const length = Number(/content-length: (\d+)/i.exec(this.received)?.[1]);
    if (bodyAt < HEAD_END.length || this.received.length < bodyAt + length) return;
    this.takeAnswer(this.received.startsWith('HTTP/1.1 200') ? this.received.slice(bodyAt) : undefined);
  }

  private takeAnswer(body: string | undefined): void {
    const tally = this.getTally();
    const now = performance.now();
    tally.bytesReceived += this.received.length;
    tally.latencies.push(now - this.sentAtMs);
    if (body === undefined) tally.failed += 1;
    else {
      if (this.cursor !== undefined && now >= this.leasedUntilMs) tally.late += 1;
      const answer = JSON.parse(body) as { readonly cursor: string; readonly fresh_for_ms: number };
      this.cursor = answer.cursor;
      this.leasedUntilMs = this.sentAtMs + answer.fresh_for_ms;
    }
    const intervalMs = (this.leaseMs / POLLS_PER_LEASE) * (1 - JITTER * Math.random());
    this.scheduleIn(this.sentAtMs + intervalMs - now);
  }

  private scheduleIn(delayMs: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.poll(), Math.max(0, delayMs));
  }
}
