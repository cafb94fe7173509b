import { ChangeLog, type LoggedAnswer } from '../../../../src/revocation/change-feed.js';
import { RevocationLease } from '../../../../src/revocation/lease.js';
import type { ServiceAnswer, ServiceRequest } from '../../src/transport.js';
import type { Credential } from './credentials.js';
import { LEASE_MS } from './histories.js';
import { Process } from './process.js';

const POLL_MS = LEASE_MS / 3;
/** OUTAGE_GRACE_SECONDS of the replicas, where they have one. */
export const GRACE_MS = 2_000;

export class Replica extends Process {
  private lease!: RevocationLease;
  private log!: ChangeLog;
  private life = 0;
  /** What had not ended when the last answered poll was read. */
  private live: ReadonlySet<string> = new Set();

  start(): void {
    this.life += 1;
    this.lease = new RevocationLease({ leaseMs: LEASE_MS, outageGraceMs: this.world.graceMs }, this.clocks);
    this.log = new ChangeLog();
    this.poll(this.life);
  }

  /** Forgets the oldest changes, as a full log does. */
  prune(): void {
    const log = this.log as unknown as { batches: { since: unknown }[]; start: unknown; head: unknown };
    log.batches.shift();
    if (this.world.mistake !== 'log pruned without raising its start') log.start = log.batches[0]?.since ?? log.head;
  }

  async answer({ url, body = '{}' }: ServiceRequest, credential: Credential | undefined): Promise<ServiceAnswer> {
    if (url.endsWith('/changes')) return this.answerPoll((JSON.parse(body) as { cursor?: string }).cursor);
    const { mistake } = this.world;
    const isRemembered = mistake === 'verdict from a replica’s memory' && this.lease.isHeld;
    const isLive = isRemembered
      ? this.live.has(credential!.id)
      : await this.ask(() => credential !== undefined && this.world.isLive(credential));
    if (!isLive) {
      const code = credential?.kind === 'node' ? 'invalid_node_credentials' : 'invalid_access_token';
      return { status: 401, headers: {}, body: JSON.stringify({ code }) };
    }
    const headers = {
      'x-platform-remember': 'yes',
      'x-platform-expires-in': String(this.world.getSecondsLeft(credential!)),
      'x-platform-fresh-for-ms': String(LEASE_MS),
    };
    return { status: 200, headers, body: JSON.stringify(credential!.body) };
  }

  private async answerPoll(cursor: string | undefined): Promise<ServiceAnswer> {
    const { mistake, database, graceMs } = this.world;
    const fromLog = this.log.answer(cursor) ?? this.assumeConnection();
    const answer = fromLog ?? (await this.ask(() => database.answer(cursor)));
    const freshForMs = this.lease.remainingMs + (mistake === 'grace handed on' && this.lease.isHeld ? graceMs : 0);
    if (freshForMs === 0) return { status: 503, headers: {}, body: '{}' };
    const changes = mistake === 'list truncated' ? answer.changes.slice(0, 1) : answer.changes;
    const listed = changes.map(({ kind, id }) => ({ kind, id }));
    const fields = { cursor: answer.cursor, reset: answer.reset, lease_ms: LEASE_MS, fresh_for_ms: freshForMs };
    return { status: 200, headers: {}, body: JSON.stringify({ ...fields, changes: listed }) };
  }

  /** The mistake: a verifier that was reset once on this connection is taken to know everything before. */
  private assumeConnection() {
    if (this.world.mistake !== 'reset remembered per connection') return undefined;
    const { head } = this.log as unknown as { head?: { epoch: string; snapshot: string } };
    return head && { cursor: `${head.epoch}/${head.snapshot}`, reset: false, changes: [] };
  }

  private poll(life: number): void {
    if (life !== this.life) return;
    const { lease, log, world } = this;
    const poll = async (cursor: string | undefined): Promise<LoggedAnswer> => {
      const read = () => ({ answer: world.database.answer(cursor) as LoggedAnswer, live: world.liveIds() });
      const { answer, live } = await this.ask(read);
      this.live = live;
      log.append(answer);
      return answer;
    };
    const isFromAnswer = world.mistake === 'lease of the replica from the answer';
    const renewed = isFromAnswer
      ? poll((lease as unknown as { cursor?: string }).cursor).then((answer) =>
          lease.renew(() => Promise.resolve(answer)),
        )
      : lease.renew(poll);
    const next = (): void => void this.schedule(() => this.poll(life), POLL_MS);
    renewed.then(next, next);
  }

  /** A statement in PostgreSQL. */
  private ask<Answer>(read: () => Answer): Promise<Answer> {
    const { outMs, backMs } = this.world.network;
    return new Promise((resolve, reject) => {
      this.schedule(() => reject(new Error('no answer')), LEASE_MS);
      this.world.at(outMs, () => {
        if (this.isCut) return;
        const answer = read();
        this.world.at(backMs, () => {
          if (!this.isCut) this.do(() => resolve(answer));
        });
      });
    });
  }
}
