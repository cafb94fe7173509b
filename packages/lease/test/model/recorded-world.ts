import type { Step } from './histories.js';
import type { Right } from './household.js';
import { STANDSTILL_MS, World, type Setting } from './world.js';

/** The verifier whose acts are recorded. */
const VERIFIER = 0;
/** How long an announcement counts. */
const ANNOUNCED_MS = 30_000;
const NONE = -1;

/** What a world was, for a verifier in another language: clients/conformance/README.md says what each number means. */
interface Recording {
  readonly leases: readonly number[];
  readonly rates: readonly number[];
  readonly grace: number;
  readonly older: number;
  readonly end: number;
  readonly steps: readonly (readonly (number | string)[])[];
  readonly states: readonly (readonly (number | readonly number[])[])[];
  readonly changes: readonly (readonly (number | string)[])[];
  readonly replicas: readonly (readonly number[])[];
  readonly rights: readonly (readonly (number | string)[])[];
}

/** Records what happens outside of the verifier, and what is presented to it; no answer and no verdict. */
export class RecordedWorld extends World {
  private readonly steps: (number | string)[][] = [];
  private readonly states: (number | readonly number[])[][] = [];
  private readonly stateOf = new Map<string, number>();
  private readonly changes: (number | string)[][] = [];
  private readonly replicaStates: number[][] = [];
  private readonly latest: string[] = [];
  private readonly announced: number[] = [];
  private readonly endedIn = new Map<string, number>();
  private readonly recorded = new Set<object>();
  /** The step that has begun a pause of the verifier. */
  private pausing: (number | string)[] | undefined;

  constructor(private readonly setting: Setting) {
    super('none', setting);
  }

  /** @param variants the same history with mistakes that change only when a revoking call answers */
  record(variants: readonly World[]): Recording {
    this.endPause();
    const listed = this.listRights();
    const others = variants.map((world) => listRightsOf(world));
    return {
      leases: this.setting.leasesMs,
      rates: [this.verifiers[VERIFIER]!.rate, ...this.replicas.map(({ rate }) => rate)],
      grace: this.graceMs,
      older: this.setting.olderReplica ?? NONE,
      end: toMoment(this.nowMs),
      steps: this.steps,
      states: this.states,
      changes: this.changes,
      replicas: this.replicaStates,
      rights: listed.flatMap((right, index) => {
        const dead = [right, ...others.map((rights) => rights[index]!)].map(({ deadSince }) => toMoment(deadSince));
        const { id, expiresAtMs = Infinity } = right;
        if (expiresAtMs === Infinity && !right.hasEnded) return [];
        return [[id, toMoment(expiresAtMs), this.endedIn.get(id) ?? NONE, ...dead]];
      }),
    };
  }

  protected override take(step: Step): void {
    const verifier = this.verifiers[VERIFIER]!;
    const { isPaused, wallOffsetMs } = verifier;
    super.take(step);
    const { outMs, backMs, act, credential, holdMs, replica } = step;
    const recorded: (number | string)[] = [toMoment(this.nowMs), outMs, backMs];
    this.steps.push(recorded);
    const isEven = Number(holdMs % 2 === 0);
    if (act === 'present') recorded.push(act, credential);
    else if (act === 'present member' || act === 'present delegated' || act === 'call onward')
      recorded.push(act, credential % 2, isEven);
    else if (act === 'route') recorded.push(act, replica);
    else if (act === 'cut verifier') recorded.push('cut', Number(verifier.isCut));
    else if (act === 'jump') recorded.push(act, verifier.wallOffsetMs - wallOffsetMs);
    else if (act === 'standstill') {
      recorded[0] = toMoment(this.nowMs - STANDSTILL_MS);
      recorded.push(act, STANDSTILL_MS);
    } else if (verifier.isPaused && !isPaused) {
      recorded.push(act === 'suspend verifier' ? 'suspend' : 'pause');
      this.pausing = recorded;
    } else if (isPaused && !verifier.isPaused) {
      this.endPause();
    }
  }

  private endPause(): void {
    this.pausing?.push(toMoment(this.nowMs) - (this.pausing[0] as number));
    this.pausing = undefined;
  }

  protected override observe(): void {
    this.observeDatabase();
    for (const index of this.replicas.keys()) this.observeReplica(index);
  }

  private observeDatabase(): void {
    const { cursor, purged } = this.database.answer(undefined);
    const [epoch = '', snapshot = ''] = cursor.split('/');
    const key = `${cursor} ${purged}`;
    const last = this.states.length - 1;
    if (this.stateOf.get(key) !== last || last < 0) {
      const [server = '', crashes = ''] = epoch.replace(/^0+/, '').split('f');
      const [, xmax = '', xip = ''] = snapshot.split(':');
      const open = xip === '' ? [] : xip.split(',').map(Number);
      this.stateOf.set(key, this.states.length);
      this.stateOf.set(cursor, this.states.length);
      this.states.push([toMoment(this.nowMs), Number(server), Number(crashes), Number(xmax), open, Number(purged)]);
    }
    const state = this.states.length - 1;
    const { log } = this.database as unknown as { log: readonly { xid: bigint; kind: string; id: string }[] };
    for (const change of log) {
      if (this.recorded.has(change)) continue;
      this.recorded.add(change);
      this.changes.push([state, Number(change.xid), change.kind, change.id]);
    }
    for (const { id, hasEnded } of this.listRights()) {
      if (hasEnded && !this.endedIn.has(id)) this.endedIn.set(id, state);
    }
  }

  private observeReplica(index: number): void {
    const replica = this.replicas[index]!;
    const { log, lease, announcement } = replica as unknown as {
      log: Record<'head' | 'start', { epoch: string; snapshot: string } | undefined> & { purged: bigint };
      lease: { heldUntilMs: number };
      announcement: { announcedAtMs: number };
    };
    const { head, start } = log;
    const toTrueTime = (ms: number): number => Math.max(0, Math.floor(ms / replica.rate));
    const state = [
      head ? this.stateOf.get(`${head.epoch}/${head.snapshot} ${log.purged}`)! : NONE,
      start ? this.stateOf.get(`${start.epoch}/${start.snapshot}`)! : NONE,
      toTrueTime(lease.heldUntilMs),
      Number(replica.isPaused) + 2 * Number(replica.isCut),
    ];
    const announced = toTrueTime(announcement.announcedAtMs + ANNOUNCED_MS);
    const isAnnounced = announced !== this.announced[index];
    if (this.latest[index] === String(state) && !isAnnounced) return;
    this.latest[index] = String(state);
    this.announced[index] = announced;
    this.replicaStates.push([toMoment(this.nowMs), index, ...state, ...(isAnnounced ? [announced] : [])]);
  }

  private listRights(): readonly Right[] {
    return listRightsOf(this);
  }
}

function listRightsOf({ credentials, household, delegation }: World): readonly Right[] {
  return [...credentials, household.place, household.role, ...delegation.pairs, delegation.scope];
}

/** Everything that happens is seen from the next millisecond on. */
function toMoment(ms: number): number {
  return ms === Infinity ? NONE : Math.ceil(ms);
}
