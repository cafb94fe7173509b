import { computeDigest } from '../../../../src/foundation/crypto/secret.js';
import { KeyCache } from '../../src/key-cache.js';
import { ChangeLog, type LoggedAnswer } from '../../src/change-feed.js';
import { RevocationLease } from '../../src/lease.js';
import { LeaseAnnouncement } from '../../../../src/domain/revocation/lease-announcement.js';
import type { ServiceAnswer, ServiceRequest } from '../../../../clients/typescript/src/transport.js';
import type { Credential } from './credentials.js';
import type { DelegatedToken } from './delegation.js';
import { LEASE_MS } from './histories.js';
import { Process } from './process.js';
import type { World } from './world.js';

const POLLS_PER_LEASE = 3;
/** How often another verifier asks a replica without a lease. */
const OTHERS_ASK_EVERY_MS = 200;
/** OUTAGE_GRACE_SECONDS of the replicas, where they have one. */
export const GRACE_MS = 2_000;
/** The keys of the model that replicas cache do not expire. */
const NOW = new Date(0);

/**
 * The real lease, cache, log and announcement. It keeps its cursor whatever happens to its connection, unlike the feed,
 * which starts anew: so the cursor alone has to be enough, as it is for a verifier of several replicas.
 */
export class Replica extends Process {
  private lease!: RevocationLease;
  private cache!: KeyCache<Credential>;
  private log!: ChangeLog;
  private announcement!: LeaseAnnouncement;
  private life = 0;
  /** When it sent the last poll that was answered. */
  private heardAtMs = -Infinity;
  /** What had not ended when the last answered poll was read. */
  private live: ReadonlySet<string> = new Set();

  constructor(
    world: World,
    rate: number,
    private readonly leaseMs: number,
    /** It does not know households. */
    private readonly isOlder: boolean,
  ) {
    super(world, rate);
  }

  start(): void {
    this.life += 1;
    this.lease = new RevocationLease({ leaseMs: this.leaseMs, outageGraceMs: this.world.graceMs }, this.clocks);
    this.cache = new KeyCache('node', this.lease, 10);
    this.log = new ChangeLog();
    this.announcement = new LeaseAnnouncement(this.leaseMs, this.clocks);
    this.heardAtMs = -Infinity;
    if (this.leaseMs > 0) this.poll(this.life);
    else if (this.world.isAskedByOthers) this.answerOthers(this.life);
  }

  /** Forgets the oldest changes, as a full log does. */
  prune(): void {
    const log = this.log as unknown as { batches: { since: unknown }[]; start: unknown; head: unknown };
    log.batches.shift();
    if (this.world.mistake !== 'log pruned without raising its start') log.start = log.batches[0]?.since ?? log.head;
  }

  /** A node presents its key to this replica, without a verifier. */
  async present(credential: Credential): Promise<void> {
    const arrivedAtMs = this.world.nowMs;
    const digest = computeDigest(credential.id);
    if (this.cache.recall(credential.id, digest, () => NOW)) {
      this.accept(credential, arrivedAtMs);
      return;
    }
    let ticket = this.cache.takeTicket();
    const isLive = await this.ask(() => this.world.isLive(credential)).catch(() => false);
    if (!isLive) return;
    if (this.world.mistake === 'stale rows remembered') ticket = this.cache.takeTicket();
    this.cache.remember(credential.id, { digest, identity: credential, expiresAt: null }, ticket);
    this.accept(credential, arrivedAtMs);
  }

  /** With a grace, a replica that is cut off may accept a revoked key, until it has polled again. */
  private accept(credential: Credential, arrivedAtMs: number): void {
    const { world } = this;
    const mayNotKnow = world.graceMs > 0 && this.heardAtMs < credential.deadSince;
    world.judge(credential, arrivedAtMs, mayNotKnow);
  }

  async answer(
    { url, headers: sent, body = '{}' }: ServiceRequest,
    credential: Credential | undefined,
  ): Promise<ServiceAnswer> {
    if (url.endsWith('/changes')) return this.answerPoll((JSON.parse(body) as { cursor?: string }).cursor);
    const { mistake, household, delegation } = this.world;
    if (url.endsWith('/token')) {
      return this.ask(() => delegation.exchange(new URLSearchParams(body).get('subject_token')!));
    }
    if (this.leaseMs === 0) await this.announceUnleased();
    const couldPromiseOnArrival = this.announcement.isCurrent || mistake === 'verdict judged when answered alone';
    const isRemembered = mistake === 'verdict from a replica’s memory' && this.lease.isHeld;
    const delegated = sent['X-Platform-Target'] === 'recipes' && !this.isOlder ? delegation.find(sent) : undefined;
    if (delegated) return this.answerDelegated(delegated, couldPromiseOnArrival);
    let households = household.listMemberships();
    const isLive = isRemembered
      ? this.live.has(credential!.id)
      : await this.ask(() => {
          households = household.listMemberships();
          return credential !== undefined && this.world.isLive(credential);
        });
    if (!isLive) {
      const code = credential?.kind === 'node' ? 'invalid_node_credentials' : 'invalid_access_token';
      return { status: 401, headers: {}, body: JSON.stringify({ code }) };
    }
    const headers = this.promise(couldPromiseOnArrival, this.world.getSecondsLeft(credential!));
    const isAboutHouseholds = credential!.kind === 'session' && !this.isOlder;
    const answered = { ...credential!.body, ...(isAboutHouseholds && { households }) };
    return { status: 200, headers, body: JSON.stringify(answered) };
  }

  private async answerDelegated(token: DelegatedToken, couldPromiseOnArrival: boolean): Promise<ServiceAnswer> {
    const { delegation } = this.world;
    const read = () =>
      delegation.isLive(token.sessionId, token.chain) && {
        body: JSON.stringify(delegation.describe(token)),
        secondsLeft: delegation.getSecondsLeft(token),
      };
    const row = await this.ask(read);
    if (!row) return { status: 401, headers: {}, body: JSON.stringify({ code: 'invalid_access_token' }) };
    return { status: 200, headers: this.promise(couldPromiseOnArrival, row.secondsLeft), body: row.body };
  }

  private promise(couldPromiseOnArrival: boolean, secondsLeft: number): Record<string, string> {
    const mayPromise = couldPromiseOnArrival && this.announcement.isCurrent;
    const isPromised = mayPromise || this.world.mistake === 'nothing announced without a lease';
    return {
      'x-platform-remember': isPromised && this.leaseMs > 0 ? 'yes' : 'no',
      'x-platform-expires-in': String(secondsLeft),
      'x-platform-fresh-for-ms': String(isPromised ? this.announcement.promiseMs : 0),
    };
  }

  private async answerPoll(cursor: string | undefined): Promise<ServiceAnswer> {
    const { mistake, database, graceMs } = this.world;
    if (this.leaseMs === 0) {
      const unleased = { cursor: '', reset: true, lease_ms: 0, fresh_for_ms: 0, changes: [] };
      return { status: 200, headers: {}, body: JSON.stringify(unleased) };
    }
    const isLeasedOnArrival = this.lease.remainingMs > 0 || mistake === 'lease judged when answered alone';
    const isGraceHandedOn = mistake === 'grace handed on';
    if (!isLeasedOnArrival && !isGraceHandedOn) return { status: 503, headers: {}, body: '{}' };
    const fromLog = this.log.answer(cursor) ?? this.assumeConnection();
    const answer = fromLog ?? (await this.ask(() => database.answer(cursor)));
    const freshForMs = this.lease.remainingMs + (isGraceHandedOn && this.lease.isHeld ? graceMs : 0);
    if (freshForMs === 0) return { status: 503, headers: {}, body: '{}' };
    const changes = mistake === 'list truncated' ? answer.changes.slice(0, 1) : answer.changes;
    const listed = changes.map(({ kind, id }) => ({ kind, id }));
    const fields = { cursor: answer.cursor, reset: answer.reset, lease_ms: this.leaseMs, fresh_for_ms: freshForMs };
    return { status: 200, headers: {}, body: JSON.stringify({ ...fields, changes: listed }) };
  }

  /** The mistake: a verifier that was reset once on this connection is taken to know everything before. */
  private assumeConnection() {
    if (this.world.mistake !== 'reset remembered per connection') return undefined;
    const { head } = this.log as unknown as { head?: { epoch: string; snapshot: string } };
    return head && { cursor: `${head.epoch}/${head.snapshot}`, reset: false, changes: [] };
  }

  private announce(): Promise<void> {
    const query = (_text: string, [id, promiseMs]: unknown[]) =>
      this.ask(() => this.world.database.announce(id as string, promiseMs as number));
    return this.announcement.announceIfDue({ query });
  }

  private async announceUnleased(): Promise<void> {
    if (this.world.mistake !== 'nothing announced without a lease') await this.announce().catch(() => undefined);
  }

  private answerOthers(life: number): void {
    if (life !== this.life) return;
    void this.announceUnleased();
    this.schedule(() => this.answerOthers(life), OTHERS_ASK_EVERY_MS);
  }

  private poll(life: number): void {
    if (life !== this.life) return;
    const next = (): void => void this.schedule(() => this.poll(life), this.leaseMs / POLLS_PER_LEASE);
    this.renew(life).then(next, () => {
      if (life === this.life) this.announcement.makeDue();
      next();
    });
  }

  /** As the feed does: announce, ask, and apply the answer only under an announcement that counts. */
  private async renew(life: number): Promise<void> {
    const { lease, log, world, announcement } = this;
    await this.announce();
    const polledAtMs = world.nowMs;
    const poll = async (cursor: string | undefined): Promise<LoggedAnswer> => {
      const read = () => ({ answer: world.database.answer(cursor), live: world.liveIds() });
      const { answer, live } = await this.ask(read);
      if (!announcement.isCurrent && world.mistake !== 'lease under an old announcement') throw new Error('too old');
      if (life === this.life) this.live = live;
      log.append(answer);
      return answer;
    };
    if (world.mistake === 'lease of the replica from the answer') {
      const answer = await poll((lease as unknown as { cursor?: string }).cursor);
      await lease.renew(() => Promise.resolve(answer));
    } else await lease.renew(poll);
    if (life === this.life) this.heardAtMs = polledAtMs;
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
