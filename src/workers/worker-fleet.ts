import cluster, { type Worker } from 'node:cluster';
import type { Variables } from '../config/environment.js';
import type { Log } from '../logging/log.js';
import { isStartFailed, PING, PONG, WorkerStartFailed } from './worker-messages.js';

/** A worker that lived so long did not fail at once. */
const STEADY_MS = 60_000;
const FIRST_DELAY_MS = 500;
const MOST_DELAY_MS = 30_000;
const PING_MS = 5_000;
/** Pings, not time: a machine that slept counts none. */
const MOST_UNANSWERED = 6;

export interface WorkerProgram {
  /** What a worker runs. */
  readonly file: string;
  /** How many servers a worker listens with: only then does it take requests. */
  readonly servers: number;
  /** Goes to a worker's environment, where its user alone can read it; never to its command line. */
  readonly variables: Variables;
}

/** One worker and what is known of it. */
interface Post {
  readonly worker: Worker;
  readonly forkedAt: number;
  /** How many before it ended early, one after the other. */
  readonly earlyEnds: number;
  /** Resolves when all its servers listen. */
  readonly up: Promise<void>;
  isListening: boolean;
  unansweredPings: number;
  failure?: string;
  readonly ended: Promise<boolean>;
}

/** How long to wait with a replacement, when the last `earlyEnds` workers in a row ended early. */
export function backOffMs(earlyEnds: number): number {
  return earlyEnds < 2 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (earlyEnds - 2), MOST_DELAY_MS);
}

/** The workers of one start: forks them, replaces those that end, stops them all. */
export class WorkerFleet {
  private readonly posts = new Set<Post>();
  private readonly replacements = new Set<NodeJS.Timeout>();
  private readonly pings = setInterval(() => this.ping(), PING_MS);
  private isUp = false;
  private isStopping = false;
  /** Workers that took the place of another. */
  restarts = 0;
  /** Told of each worker that begins. */
  onFork: (worker: Worker) => void = () => undefined;
  /** Told of each worker that has ended. */
  onEnd: (worker: Worker) => void = () => undefined;

  constructor(
    private readonly program: WorkerProgram,
    private readonly size: number,
    private readonly log: Log,
  ) {
    cluster.setupPrimary({ exec: program.file, args: [] });
  }

  /** Those that listen. */
  get listening(): Worker[] {
    return [...this.posts].filter(({ isListening }) => isListening).map(({ worker }) => worker);
  }

  /** @throws with what the first worker said that could not start; then none is left */
  async start(): Promise<void> {
    const posts = Array.from({ length: this.size }, () => this.fork(0));
    try {
      await Promise.all(posts.map((post) => Promise.race([post.up, failureOf(post)])));
      this.isUp = true;
    } catch (error) {
      // Somebody stops it while it starts: that is no failure, and the end of the process is near.
      if (this.isStopping) return new Promise(() => undefined);
      await this.abandon();
      throw error;
    }
  }

  /**
   * Asks each to stop, and replaces none any more.
   * @param patienceMs after which those that are left are killed
   * @returns whether all ended as they should
   */
  async stop(patienceMs: number): Promise<boolean> {
    this.isStopping = true;
    clearInterval(this.pings);
    this.replacements.forEach(clearTimeout);
    const ends = [...this.posts].map(({ ended }) => ended);
    for (const { worker } of this.posts) worker.process.kill('SIGTERM');
    const kill = setTimeout(() => this.posts.forEach((post) => this.kill(post, 'worker_killed')), patienceMs);
    const areGood = await Promise.all(ends);
    clearTimeout(kill);
    return areGood.every(Boolean);
  }

  /** Nobody has been told that it is up: there is nothing to finish. */
  private async abandon(): Promise<void> {
    this.isStopping = true;
    clearInterval(this.pings);
    const ends = [...this.posts].map(({ ended }) => ended);
    for (const { worker } of this.posts) worker.process.kill('SIGKILL');
    await Promise.all(ends);
  }

  private fork(earlyEnds: number): Post {
    const worker = cluster.fork(this.program.variables);
    const ended = gone(worker).then(({ code, signal }) => this.end(post, code, signal));
    const up = allListening(worker, this.program.servers).then(() => void (post.isListening = true));
    const post: Post = {
      worker,
      up,
      forkedAt: performance.now(),
      earlyEnds,
      isListening: false,
      unansweredPings: 0,
      ended,
    };
    this.posts.add(post);
    this.onFork(worker);
    worker.on('message', (message: unknown) => {
      if (message === PONG) post.unansweredPings = 0;
      else if (isStartFailed(message)) post.failure = message.startFailed;
    });
    return post;
  }

  /** @returns whether it ended as it should */
  private end(post: Post, code?: number, signal?: string): boolean {
    this.posts.delete(post);
    this.onEnd(post.worker);
    if (this.isUp && !this.isStopping) this.replace(post, code, signal);
    // Before it listens a worker has nothing to finish, and a signal just ends it.
    return code === 0 || (!post.isListening && (signal === 'SIGTERM' || signal === 'SIGINT'));
  }

  private replace({ worker, forkedAt, earlyEnds, failure }: Post, code?: number, signal?: string): void {
    const early = performance.now() - forkedAt < STEADY_MS ? earlyEnds + 1 : 0;
    const delayMs = backOffMs(early);
    this.log.warning('worker_replaced', { worker_pid: worker.process.pid, exit_code: code, signal, delay_ms: delayMs });
    if (failure !== undefined) console.error(failure);
    const timer = setTimeout(() => {
      this.replacements.delete(timer);
      this.restarts += 1;
      this.fork(early);
    }, delayMs);
    this.replacements.add(timer);
  }

  private ping(): void {
    for (const post of this.posts) {
      if (!post.isListening || !post.worker.isConnected()) continue;
      if (post.unansweredPings >= MOST_UNANSWERED) this.kill(post, 'worker_hangs');
      else post.worker.send(PING, () => undefined);
      post.unansweredPings += 1;
    }
  }

  private kill({ worker }: Post, message: string): void {
    this.log.failure(message, { worker_pid: worker.process.pid });
    worker.process.kill('SIGKILL');
  }
}

/** Resolves when a worker listens with so many servers. */
async function allListening(worker: Worker, servers: number): Promise<void> {
  await new Promise<void>((resolve) => {
    let pending = servers;
    worker.on('listening', () => {
      pending -= 1;
      if (pending === 0) resolve();
    });
  });
}

interface End {
  readonly code?: number | undefined;
  readonly signal?: string | undefined;
}

/** Resolves when all that a worker has said is read, which may be after its end: when its channel is closed. */
async function gone(worker: Worker): Promise<End> {
  const closed = new Promise((resolve) => worker.once('disconnect', resolve));
  const end = await new Promise<End>((resolve) => {
    worker.once('exit', (code: number | null, signal: string | null) =>
      resolve({ code: code ?? undefined, signal: signal ?? undefined }),
    );
    // It could not even be forked; or the channel broke while something was sent, and its end will say so.
    worker.on('error', () => {
      if (worker.process.pid === undefined) resolve({});
    });
  });
  // A worker that is killed with a connection on its way to it loses its channel without the event.
  if (worker.isConnected()) await closed;
  return end;
}

async function failureOf(post: Post): Promise<never> {
  await post.ended;
  throw new WorkerStartFailed(post.failure ?? 'The service could not start: a worker ended before it was ready.');
}
