import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect, isDeepStrictEqual } from 'node:util';
import { RefusedError, UnavailableError, VerificationError } from '../src/errors.js';
import type { MemberDemands } from '../src/membership.js';
import { toSettings } from '../src/options.js';
import { hasScope, type AnyUserPrincipal, type Principal } from '../src/principals.js';
import { VerifierCore } from '../src/verifier-core.js';
import { FakeService } from './fake-service.js';
import {
  credentials,
  names,
  readScenarios,
  restrictedApps,
  secrets,
  type Count,
  type Credential,
  type Expectation,
  type Scenario,
  type Step,
  type Verdict,
} from './scenarios.js';
import { Simulation } from './simulation.js';
import type { ServiceRequest } from '../src/transport.js';

/** A scenario fails when its verdict is still unknown this long after the last step. */
const PATIENCE_MS = 10_000;

/** Holds the file with the own key in some scenarios. */
const FOLDER = mkdtempSync(join(tmpdir(), 'platform-auth-conformance-'));
afterAll(() => rmSync(FOLDER, { recursive: true }));

interface Known {
  readonly atMs: number;
  readonly verdict: Verdict;
  readonly principal?: Readonly<Record<string, unknown>>;
  readonly error?: VerificationError;
}

/** Runs one scenario, and collects everything that does not match it. */
class Run {
  readonly mistakes: string[] = [];
  private readonly simulation = new Simulation();
  private readonly service: FakeService;
  private readonly verifier: VerifierCore;
  private readonly logged: { readonly event: string; readonly fields: Readonly<Record<string, unknown>> }[] = [];
  private readonly texts: string[] = [];
  private readonly keyFile = join(FOLDER, 'auth-app-key');
  private pending = 0;

  constructor(private readonly scenario: Scenario) {
    this.service = new FakeService(this.simulation, scenario.service);
    const { verifier = {} } = scenario;
    if (verifier.key_file !== undefined) writeFileSync(this.keyFile, verifier.key_file);
    const settings = toSettings({
      url: 'http://auth.test',
      appId: names.own_app_id!,
      ...(verifier.key_file === undefined ? { appKey: names.own_app_key! } : { appKeyFile: this.keyFile }),
      serviceName: 'recipes',
      // Few, because a cache takes the memory of all its entries when it is made: a tenth of a second of CPU for 100,000.
      maxEntries: 100,
      secretKey: verifier.secret_key === undefined ? names.secret_key : (verifier.secret_key ?? undefined),
      secretKeyPrevious: verifier.secret_key_previous,
      jwksUrl: verifier.jwks_url ?? undefined,
      outageGraceSeconds: verifier.outage_grace_seconds,
      maxQuestions: verifier.max_questions,
      issuer: verifier.issuer,
      audience: verifier.audience,
      logger: { warn: (event, fields) => void this.logged.push({ event, fields }) },
    });
    this.verifier = new VerifierCore(settings, this.simulation.createRuntime(this.service));
  }

  async run(): Promise<void> {
    for (const step of this.scenario.steps) {
      const isOutside = step.present === undefined;
      this.simulation.at(step.at, () => this.take(step), { isOutside });
    }
    const lastMs = this.scenario.steps.at(-1)!.at;
    await this.simulation.run(lastMs);
    if (this.pending > 0) await this.simulation.run(lastMs + PATIENCE_MS);
    if (this.pending > 0) this.mistakes.push(`${this.pending} verdicts are not known`);
    if (this.service.unexpected.length > 0) this.mistakes.push(`unexpected: ${this.service.unexpected.join()}`);
    this.texts.push(JSON.stringify(this.logged), inspect(this.verifier, { depth: 20, showHidden: true }));
    this.texts.push(JSON.stringify(this.verifier));
    const printed = secrets.filter((secret) => this.texts.some((text) => text.includes(secret)));
    if (printed.length > 0) this.mistakes.push(`${printed.length} secrets were printed`);
  }

  private take(step: Step): void {
    if (step.present !== undefined) void this.present(step);
    if (step.service) this.service.replace(step.service);
    if (step.key_file !== undefined) rmSync(this.keyFile);
    if (typeof step.key_file === 'string') writeFileSync(this.keyFile, step.key_file);
    if (step.wall_jump_ms !== undefined) this.simulation.jump(step.wall_jump_ms);
    if (step.pause_ms !== undefined) this.simulation.stop(step.pause_ms);
    if (step.suspend_ms !== undefined) this.simulation.suspend(step.suspend_ms);
    this.checkRequests(step);
    for (const [event, times] of Object.entries(step.logged ?? {})) {
      this.match(step, `logged ${event}`, this.logged.filter((line) => line.event === event).length, times);
    }
    const misconfigured = this.logged.filter(({ event }) => event === 'verifier_misconfigured');
    const causes = misconfigured.map(({ fields }) => fields.cause);
    if (step.causes && !isDeepStrictEqual(causes, step.causes)) this.fail(step, `causes: ${inspect(causes)}`);
  }

  private async present(step: Step): Promise<void> {
    this.pending += 1;
    const { present } = step;
    const credential = typeof present === 'string' ? credentials[present]! : present!;
    const known = await this.verify(credential, step);
    this.pending -= 1;
    const expected: Expectation = typeof step.expect === 'string' ? { verdict: step.expect } : step.expect!;
    const { atMs, verdict, principal, error } = known;
    if (error) this.texts.push(inspect(error, { depth: 20, showHidden: true }), JSON.stringify(error.toResponse()));
    this.match(step, 'verdict', verdict, expected.verdict);
    if (expected.by !== undefined && atMs > expected.by) this.fail(step, `known at ${atMs}, not by ${expected.by}`);
    if (expected.not_before !== undefined && atMs < expected.not_before) this.fail(step, `known at ${atMs}`);
    for (const [name, value] of Object.entries(expected.principal ?? {})) {
      const found = principal?.[name];
      if (!isDeepStrictEqual(found, value)) this.fail(step, `principal.${name}: ${inspect(found)}`);
    }
    if (error) this.checkResponse(step, error, expected);
  }

  private async verify({ door, headers }: Credential, step: Step): Promise<Known> {
    const request = toRequest([...headers, ...(step.with ?? [])]);
    const verify = { app: 'verifyApp', node: 'verifyNode', user: 'verifyUser' } as const;
    const membership = step.member as MemberDemands | undefined;
    const { demands, token_for: exchange } = step;
    try {
      if (exchange) {
        const token = await this.verifier.tokenFor(request, exchange.target, exchange);
        return { atMs: this.simulation.nowMs, verdict: 'accepted', principal: { token } };
      }
      const principal = await (membership
        ? this.verifier.verifyMember(request, membership)
        : demands
          ? this.verifier.verifyUser(request, demands)
          : this.verifier[verify[door]](request));
      return { atMs: this.simulation.nowMs, verdict: 'accepted', principal: toNeutral(principal) };
    } catch (error) {
      if (!(error instanceof VerificationError)) {
        this.fail(step, inspect(error));
        return { atMs: this.simulation.nowMs, verdict: 'unavailable' };
      }
      return { atMs: this.simulation.nowMs, verdict: error instanceof RefusedError ? 'refused' : 'unavailable', error };
    }
  }

  private checkResponse(step: Step, error: VerificationError, expected: Expectation): void {
    const { status, headers, body } = error.toResponse();
    const isUnavailable = error instanceof UnavailableError;
    this.match(step, 'status', status, isUnavailable ? 503 : (expected.status ?? 401));
    this.match(step, 'code', body.code, isUnavailable ? 'unavailable' : (expected.code ?? body.code));
    this.match(step, 'content type', headers['Content-Type'], 'application/problem+json');
    if (status === 401 && !headers['WWW-Authenticate']) this.fail(step, 'no WWW-Authenticate');
    if (status === 503 && !headers['Retry-After']) this.fail(step, 'no Retry-After');
  }

  private checkRequests(step: Step): void {
    for (const [path, count] of Object.entries(step.asked ?? {})) {
      this.match(step, `asked ${path}`, this.service.sent(path as never).length, count);
    }
    if (step.reported) {
      const { kind, id, times } = step.reported;
      const naming = this.service
        .sent('changes')
        .filter(({ body }) => readUsed(body).some((use) => use.kind === kind && use.id === id));
      this.match(step, 'reported', naming.length, times);
    }
    if (step.last) this.checkLast(step, step.last);
  }

  private checkLast(step: Step, expected: NonNullable<Step['last']>): void {
    const request = this.service.sent(expected.path).at(-1);
    if (!request) {
      this.fail(step, `no request to ${expected.path}`);
      return;
    }
    const headers = new Headers(request.headers);
    const body = readBody(request);
    for (const [name, value] of Object.entries(expected.headers ?? {}))
      this.match(step, name, headers.get(name), value);
    for (const name of expected.without_headers ?? []) this.match(step, name, headers.get(name), null);
    for (const [name, value] of Object.entries(expected.body ?? {})) this.match(step, name, body[name], value);
    for (const name of expected.without_body_fields ?? []) this.match(step, name, body[name], undefined);
    if (!expected.used) return;
    const used = readUsed(request.body);
    this.match(step, 'uses', used.length, expected.used.length);
    for (const { kind, id, ago_ms: ago, previous } of expected.used) {
      const found = used.find((use) => use.kind === kind && use.id === id && use.previous === previous);
      this.match(step, `use of ${kind}`, found?.ago_ms, ago);
    }
  }

  private match(step: Step, what: string, actual: unknown, expected: unknown): void {
    const range = expected as Count;
    const isMatch =
      Array.isArray(range) && range.every((bound) => typeof bound === 'number')
        ? (actual as number) >= range[0]! && (actual as number) <= range[1]!
        : actual === expected;
    if (!isMatch) this.fail(step, `${what}: ${inspect(actual)} instead of ${inspect(expected)}`);
  }

  private fail(step: Step, what: string): void {
    const { present } = step;
    this.mistakes.push(`at ${step.at}${typeof present === 'string' ? ` (${present})` : ''}: ${what}`);
  }
}

/** Hands headers over as Node.js does. */
function toRequest(pairs: readonly (readonly [string, string])[]) {
  const headers: Record<string, string> = {};
  for (const [name, value] of pairs) {
    const lower = name.toLowerCase();
    if (headers[lower] === undefined) headers[lower] = value;
    else if (lower !== 'authorization') headers[lower] += `, ${value}`;
  }
  return { headers, rawHeaders: pairs.flat() };
}

/** The suite's names of a principal's fields. */
function toNeutral(principal: Principal | AnyUserPrincipal): Record<string, unknown> {
  const toSnakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(principal).map(([name, value]) => [toSnakeCase(name), value]));
}

function readBody({ headers, body = '{}' }: ServiceRequest): Readonly<Record<string, unknown>> {
  const isForm = headers['Content-Type'] === 'application/x-www-form-urlencoded';
  return isForm ? Object.fromEntries(new URLSearchParams(body)) : (JSON.parse(body) as Record<string, unknown>);
}

function readUsed(body = '{}'): { kind: string; id: string; ago_ms: number; previous?: boolean }[] {
  return (JSON.parse(body) as { used?: [] }).used ?? [];
}

describe.each(readScenarios())('$rule', ({ scenarios }) => {
  it.each(scenarios)('$name', async (scenario) => {
    const run = new Run(scenario);
    await run.run();
    expect(run.mistakes).toEqual([]);
  });
});

describe('a restriction of an app credential', () => {
  it.each(restrictedApps.filter(({ asked }) => asked !== null))('is judged as by the service: %j', (given) => {
    const identity = { door: 'app', appId: names.app_id!, caller: 'meals', target: 'recipes' } as const;
    const principal = given.scopes ? { ...identity, scopes: given.scopes } : identity;
    expect(hasScope(principal, given.asked!)).toBe(given.accepted);
  });
});
