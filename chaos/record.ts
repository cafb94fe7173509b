import { now, type Answer, type Period, type Request } from './client.js';
import type { VerifierQuestion } from './verifiers/protocol.js';
import type { VerifierProgram } from './verifiers/programs.js';

/** The hot routes: each must have correct responses again within the bound of the scenario. */
export const HOT = ['validate-node', 'validate-app', 'users/me', 'refresh', 'login', 'admin'] as const;

/** The default of REVOCATION_LEASE_MS. */
const LEASE_MS = 500;
/** How far apart requests may be answered that asked one question of the service together. */
const MAX_JOINED_MS = 50;

/** A door of a verifier. */
type VerifierRoute = `${VerifierProgram['name']} ${VerifierQuestion['door']}`;
export type HotRoute = (typeof HOT)[number] | VerifierRoute;
export type Route = HotRoute | 'register' | 'logout' | 'account' | 'household' | 'validate-user';

/** A time in milliseconds, and the hot route that took it. */
interface RouteTime {
  readonly name: HotRoute;
  readonly ms: number;
}

/** A 503 of a verifier. */
export interface Unavailable extends Period {
  readonly name: VerifierRoute;
}

interface RouteRecord {
  readonly name: HotRoute;
  right: number;
  lastAt: number;
  silenceMs: number;
  backAt: number | undefined;
}

/** The responses during one scenario, and the longest time without a correct one. */
export class LoadRecord {
  requests = 0;
  slowestMs = 0;
  slowestRequest = 'nothing';
  /** Counts by label and route. */
  readonly errors = new Map<string, Map<Route, number>>();
  readonly wrong: string[] = [];
  readonly lost: string[] = [];
  readonly unavailables: Unavailable[] = [];
  private readonly startedAt = now();
  private injectedAt: number | undefined;
  private healedAt: number | undefined;
  private endedAt: number | undefined;
  private readonly routes: readonly RouteRecord[];

  constructor(verifiers: readonly VerifierProgram['name'][] = []) {
    const doors = verifiers.flatMap((name) => [`${name} app`, `${name} node`, `${name} user`] as const);
    this.routes = [...HOT, ...doors].map((name) => {
      return { name, right: 0, lastAt: this.startedAt, silenceMs: 0, backAt: undefined };
    });
  }

  addAnswer({ method = 'POST', path }: Request, { startedAt, endedAt }: Period): void {
    this.requests += 1;
    if (this.endedAt !== undefined || endedAt - startedAt <= this.slowestMs) return;
    this.slowestMs = endedAt - startedAt;
    this.slowestRequest = `${method} ${path}`;
  }

  /** Records a verdict that agrees with the ledger. */
  addRight(name: Route, { startedAt, endedAt }: Period): void {
    const route = this.find(name);
    if (!route || this.endedAt !== undefined) return;
    route.right += 1;
    route.silenceMs = Math.max(route.silenceMs, endedAt - route.lastAt);
    route.lastAt = endedAt;
    if (this.healedAt !== undefined && startedAt >= this.healedAt) route.backAt ??= endedAt;
  }

  /** Records a response without a verdict, which the caller retries. */
  addError(name: Route, { label }: Answer): void {
    this.count(label, name);
  }

  /** Records a 503 of a verifier, which is allowed only during the fault. */
  addUnavailable(name: VerifierRoute, { startedAt, endedAt, label }: Answer): void {
    this.unavailables.push({ name, startedAt, endedAt });
    this.count(label, name);
  }

  addWrongVerdict(text: string): void {
    this.wrong.push(`${this.toOffset(now())} ms: ${text}`);
  }

  addLostWrite(text: string): void {
    this.lost.push(text);
  }

  /** Marks the start of the fault. */
  markInjected(): void {
    this.injectedAt ??= now();
  }

  /** Marks the end of the fault. */
  markHealed(): void {
    this.healedAt = now();
  }

  /** Ends the load: a gap that is still open counts up to now. */
  end(): void {
    const endedAt = now();
    for (const route of this.routes) route.silenceMs = Math.max(route.silenceMs, endedAt - route.lastAt);
    this.endedAt = endedAt;
  }

  countLabel(label: string): number {
    return [...(this.errors.get(label)?.values() ?? [])].reduce((sum, count) => sum + count, 0);
  }

  countErrors(name: Route): number {
    return [...this.errors.values()].reduce((sum, byRoute) => sum + (byRoute.get(name) ?? 0), 0);
  }

  countRight(name: HotRoute): number {
    return this.find(name)?.right ?? 0;
  }

  /** The longest times without a correct response. */
  get silences(): readonly RouteTime[] {
    return this.routes.map(({ name, silenceMs }) => ({ name, ms: silenceMs }));
  }

  /** The times from the end of the fault to the first correct response of each route; empty without a fault. */
  get backs(): readonly RouteTime[] {
    const { healedAt } = this;
    if (healedAt === undefined) return [];
    return this.routes.map(({ name, backAt = Infinity }) => ({ name, ms: backAt - healedAt }));
  }

  /**
   * @param graceMs how long after the fault a verifier may still answer 503
   * @returns the 503s of verifiers that neither the fault nor a timeout explains: an answer that took longer than its
   * lease, to this request or to an earlier one that it joined
   */
  listUnavailableOutside(graceMs: number): Unavailable[] {
    const { injectedAt = Infinity, healedAt = Infinity } = this;
    const late = this.unavailables.filter(({ startedAt, endedAt }) => endedAt - startedAt >= LEASE_MS);
    return this.unavailables.filter(({ name, startedAt, endedAt }) => {
      const isOutside = endedAt < injectedAt || startedAt > healedAt + graceMs;
      const isLate = late.some(
        (other) =>
          other.name === name && other.startedAt <= startedAt && Math.abs(other.endedAt - endedAt) < MAX_JOINED_MS,
      );
      return isOutside && !isLate;
    });
  }

  /** @returns milliseconds from the start of the load */
  toOffset(moment: number): number {
    return Math.round(moment - this.startedAt);
  }

  /** The end of the last correct response; before the first one, the start of the load. */
  get lastRightAt(): number {
    return Math.max(...this.routes.map(({ lastAt }) => lastAt));
  }

  get routeNames(): readonly HotRoute[] {
    return this.routes.map(({ name }) => name);
  }

  private count(label: string, name: Route): void {
    const byRoute = this.errors.get(label) ?? new Map<Route, number>();
    byRoute.set(name, (byRoute.get(name) ?? 0) + 1);
    this.errors.set(label, byRoute);
  }

  private find(name: Route): RouteRecord | undefined {
    return this.routes.find((route) => route.name === name);
  }
}

/** @returns undefined when there are none */
export function findWorst(times: readonly RouteTime[]): RouteTime | undefined {
  return times.toSorted((a, b) => b.ms - a.ms)[0];
}
