import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Cleanup } from '../../tools/cleanup.js';
import { TcpProxy } from '../../tools/tcp-proxy.js';
import { now, type Answer } from '../client.js';
import type { VerifierAnswer, VerifierQuestion } from './protocol.js';
import type { VerifierProgram } from './programs.js';

/** A verdict takes 3 s at most; a paused process takes the rest. */
const ANSWER_TIMEOUT_MS = 20_000;
/** An outage must never be reported as a mistake in the configuration. */
const MISCONFIGURED = 'verifier_misconfigured';

/** A process with a verifier, and the network between it and the service. */
export class VerifierProcess {
  private lastId = 0;
  private readonly waiting = new Map<number, (answer: VerifierAnswer | undefined) => void>();
  /** What the process logged about its configuration, and why it ended. */
  readonly complaints: string[] = [];

  private constructor(
    readonly name: VerifierProgram['name'],
    /** Leads to the load balancer at first. */
    readonly proxy: TcpProxy,
    private readonly child: ChildProcess,
  ) {
    child.stdin?.on('error', () => undefined);
    void this.read((line) => this.settle(JSON.parse(line) as VerifierAnswer), child.stdout);
    void this.read((line) => {
      if (line.includes(MISCONFIGURED)) this.complaints.push(line);
    }, child.stderr);
    child.once('close', (code) => {
      this.complaints.push(`it ended with ${String(code)}`);
      for (const id of this.waiting.keys()) this.settle({ id, status: 500, code: 'the process ended' });
    });
  }

  /**
   * @param upstream URL to which its proxy leads
   * @param variables that `init` writes, except AUTH_URL and AUTH_JWKS_URL
   */
  static async start(
    cleanup: Cleanup,
    { name, command, words, variables: more }: VerifierProgram,
    { upstream, variables }: { readonly upstream: string; readonly variables: Readonly<Record<string, string>> },
  ): Promise<VerifierProcess> {
    const proxy = await TcpProxy.before(upstream);
    cleanup.defer(() => proxy.close());
    const url = proxy.url.replace(/\/$/, '');
    const jwks = variables.SECRET_KEY === undefined ? { AUTH_JWKS_URL: `${url}/.well-known/jwks.json` } : {};
    const env = { PATH: process.env.PATH, ...more, ...variables, AUTH_URL: url, ...jwks };
    cleanup.assertOpen();
    const child = spawn(command, words, { env, stdio: 'pipe' });
    cleanup.defer(() => stop(child));
    return new VerifierProcess(name, proxy, child);
  }

  /** Asks for a verdict. Never rejects. */
  async verify(
    door: VerifierQuestion['door'],
    headers: Readonly<Record<string, string>>,
    member?: VerifierQuestion['member'],
  ): Promise<Answer> {
    const startedAt = now();
    const id = (this.lastId += 1);
    const lowerCase = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
    const question: VerifierQuestion = { id, door, headers: lowerCase, member };
    const answered = new Promise<VerifierAnswer | undefined>((resolve) => this.waiting.set(id, resolve));
    const timer = setTimeout(() => this.waiting.get(id)?.(undefined), ANSWER_TIMEOUT_MS);
    this.child.stdin?.write(`${JSON.stringify(question)}\n`);
    const answer = await answered;
    clearTimeout(timer);
    this.waiting.delete(id);
    const { status, code } = answer ?? { status: 'timeout' as const, code: '' };
    return { status, label: `verifier ${status}`, body: { code }, startedAt, endedAt: now() };
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  private settle(answer: VerifierAnswer): void {
    this.waiting.get(answer.id)?.(answer);
  }

  private async read(onLine: (line: string) => void, stream: ChildProcess['stdout']): Promise<void> {
    if (!stream) return;
    for await (const line of createInterface({ input: stream })) onLine(line);
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}
