import { setTimeout as sleep } from 'node:timers/promises';
import type { Variables } from '../src/foundation/config/environment.js';
import type { Cleanup } from '../tools/cleanup.js';
import { verifyKey } from './actors/verifiers.js';
import { audit } from './audit.js';
import { auditEvents, type EventExpectations } from './event-audit.js';
import { findBrokenBounds, type Bounds } from './bounds.js';
import { now } from './client.js';
import type { Credential } from './ledger.js';
import type { Load, LoadOptions } from './load.js';
import type { Options } from './options.js';
import type { LoadRecord } from './record.js';
import { explainMissingVerifier } from './verifiers/programs.js';
import { World } from './world.js';

const VERDICT_TIMEOUT_MS = 5_000;
const VERDICT_INTERVAL_MS = 50;

export interface Scenario {
  readonly name: string;
  readonly title: string;
  readonly bounds: Bounds;
  /** Why the scenario cannot run on this machine; undefined when it can. */
  readonly whyNot?: () => string | undefined;
  /** Prepares the database, calls {@link Stage.begin}, and injects the fault. */
  readonly run: (stage: Stage) => Promise<void>;
  /**
   * Judges the load's record instead of the bounds.
   * @returns what is wrong with it
   */
  readonly judge?: (load: Load) => string[];
}

export interface Result {
  readonly scenario: Scenario;
  /** Undefined when the scenario did not end. */
  readonly record?: LoadRecord;
  readonly notRun?: string;
  /** What did not take part; undefined when everything did. */
  readonly leftOut?: string | undefined;
  /** The bounds that did not hold. */
  readonly broken: readonly string[];
}

interface RunOptions extends Pick<Options, 'seconds' | 'patience' | 'old'> {
  readonly cleanup: Cleanup;
}

interface BeginOptions {
  /** Added to the environment of each replica. */
  readonly variables?: Variables;
  /** Added to the environment of the first replica only. */
  readonly ofFirst?: Variables;
  readonly replicas?: number;
  /** The compiled service of the replicas; by default this build. */
  readonly script?: string | undefined;
  readonly load?: LoadOptions;
  /** Whether a verifier in each language joins the load. */
  readonly verifiers?: boolean;
  /** Whether services read events, in each language. */
  readonly consumers?: boolean;
}

export class Stage {
  readonly broken: string[] = [];
  events: EventExpectations = { resets: false, forgets: false };
  private running: Load | undefined;

  constructor(
    readonly world: World,
    readonly seconds: number,
    private readonly patience: number,
    /** The checkout from which a rolling restart upgrades. */
    readonly old: string | undefined,
  ) {}

  /** @throws before {@link begin} */
  get load(): Load {
    if (!this.running) throw new Error('The load was not started');
    return this.running;
  }

  /** Starts the replicas and the load. */
  async begin({
    variables,
    ofFirst,
    replicas,
    script,
    load = {},
    verifiers,
    consumers,
  }: BeginOptions = {}): Promise<Load> {
    await this.world.startReplicas({ variables, ofFirst, replicas, script });
    if (verifiers) await this.world.startVerifiers(variables);
    if (consumers) await this.world.startConsumers();
    this.running = await this.world.startLoad(load);
    return this.running;
  }

  /** Runs the load without a new fault. */
  rest(): Promise<void> {
    return sleep(this.seconds * 1_000);
  }

  /** @returns the bound multiplied by --patience */
  scale(bound: number): number {
    return bound * this.patience;
  }

  /** @param ms is multiplied by --patience */
  wait(ms: number): Promise<void> {
    return sleep(this.scale(ms));
  }

  /**
   * Asks until there is a verdict, for which a busy machine may need a moment.
   * @returns undefined without one
   */
  async verdictOf(ask: () => Promise<boolean | undefined>): Promise<boolean | undefined> {
    let verdict = await ask();
    const end = now() + this.scale(VERDICT_TIMEOUT_MS);
    while (verdict === undefined && now() < end) {
      await sleep(VERDICT_INTERVAL_MS);
      verdict = await ask();
    }
    return verdict;
  }

  /** Marks the start of the fault, from which verifiers may answer 503. */
  markInjected(): void {
    this.load.record.markInjected();
  }

  /** Marks the end of the fault. */
  markHealed(): void {
    this.load.record.markHealed();
  }

  /** Checks a bound that only this scenario has. */
  expect(holds: boolean, bound: string): void {
    if (!holds) this.broken.push(bound);
  }

  /** Every verifier must refuse the revoked credentials within the bound of a recovery. */
  async expectVerifiersRefuse(credentials: readonly Credential[]): Promise<void> {
    for (const verifier of this.load.verifiers) {
      for (const credential of credentials) {
        const verdict = await this.verdictOf(() => verifyKey(this.load, verifier, credential));
        this.expect(verdict === false, `${credential.key.name} was not refused by the ${verifier.name} verifier`);
      }
    }
  }

  async stop(): Promise<void> {
    await this.running?.stop();
  }
}

/**
 * Stops the load also after a scenario that failed.
 * @throws {AggregateError} when both fail, because a load that gives up hides why the scenario failed
 */
export async function runUntilStopped(
  scenario: Pick<Scenario, 'name' | 'run'>,
  stage: Pick<Stage, 'stop'>,
): Promise<void> {
  const failures: unknown[] = [];
  await scenario.run(stage as Stage).catch((error: unknown) => failures.push(error));
  await stage.stop().catch((error: unknown) => failures.push(error));
  if (failures.length > 1) throw new AggregateError(failures, `${scenario.name} and the stop of its load failed`);
  if (failures.length === 1) throw failures[0];
}

/** Runs one scenario with a new database, new replicas and a new load. */
export async function runScenario(
  scenario: Scenario,
  { cleanup, seconds, patience, old }: RunOptions,
): Promise<Result> {
  const notRun = scenario.whyNot?.();
  if (notRun !== undefined) return { scenario, notRun, broken: [] };
  const stage = new Stage(await World.withDatabase(cleanup), seconds, patience, old);
  await runUntilStopped(scenario, stage);
  const { record } = stage.load;
  const { postgres, consumers } = stage.world;
  await audit(postgres, stage.load);
  const resets = await auditEvents({ postgres, load: stage.load, consumers, expected: stage.events, patience });
  const judged = scenario.judge ? scenario.judge(stage.load) : findBrokenBounds(record, scenario.bounds, patience);
  const complaints = [...stage.load.verifiers, ...consumers].flatMap(({ name, complaints: texts }) =>
    texts.map((text) => `a ${name} process: ${text}`),
  );
  const leftOut = stage.load.verifiers.length > 0 ? explainMissingVerifier() : undefined;
  return { scenario, record, leftOut, broken: [...stage.broken, ...resets, ...judged, ...complaints] };
}
