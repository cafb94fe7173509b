import fc from 'fast-check';
import { repeatWhile } from '../tools/repeat-while.js';
import type { Actors } from './actors.js';
import type { Judge } from './judge.js';
import type { Client, Answer, Failure } from './send.js';
import { toCurl, toWire, type GeneratedRequest, type SentRequest } from './wire.js';

const CHANGING = /^(POST|PATCH|DELETE|PUT)$/;
/** Repeats a 503, because on a busy machine the service may lose its lease. */
const REPETITION = { maxCalls: 6, pauseMs: 500 };

/** Requests of one sort, sent one after the other. */
export interface Lane<Request = unknown> {
  readonly name: string;
  readonly requests: fc.Arbitrary<Request>;
  /**
   * Sends one request.
   * @returns what is wrong with its response, or undefined
   */
  readonly attempt: (request: Request) => Promise<string | undefined>;
}

/** A lane whose type of requests is hidden, so that lanes of different types fit into one list. */
export interface RunnableLane {
  readonly name: string;
  /** Its share of the requests of a run; most lanes have 1. */
  readonly share: number;
  /**
   * Sends until a response is wrong, and then shrinks that request.
   * @returns a report of what is wrong, or undefined
   */
  readonly run: (options: LaneOptions) => Promise<string | undefined>;
}

interface LaneOptions {
  readonly seed: number;
  readonly runs: number;
  readonly timeLimitMs: number | undefined;
}

/** The number of requests sent so far. */
export interface Progress {
  requests: number;
}

/** What all lanes that send well-formed HTTP share. */
export interface Tools {
  readonly client: Client;
  readonly actors: Actors;
  readonly judge: Judge;
  readonly progress: Progress;
}

export function toRunnable<Request>(lane: Lane<Request>, share = 1): RunnableLane {
  return { name: lane.name, share, run: (options) => run(lane, options) };
}

/** @returns a lane that sends well-formed HTTP */
export function createHttpLane(
  name: string,
  requests: fc.Arbitrary<GeneratedRequest>,
  { client, actors, judge, progress }: Tools,
): Lane<GeneratedRequest> {
  const attempt = async (generated: GeneratedRequest): Promise<string | undefined> => {
    const sent = await toWire(generated, actors);
    const answer = await repeatWhile(isUnavailable, () => client.send(sent.wire), REPETITION);
    progress.requests += 1;
    const wrong = judge.verdict(generated, sent, answer);
    replaceUsedUp(actors, sent, generated, answer);
    return wrong && `${wrong}\n  ${toCurl(client.port, sent.wire)}`;
  };
  return { name, requests, attempt };
}

function isUnavailable(answer: Answer | Failure): boolean {
  return 'status' in answer && answer.status === 503 && answer.body.includes('"unavailable"');
}

async function run<Request>(
  { name, requests, attempt }: Lane<Request>,
  { seed, runs, timeLimitMs }: LaneOptions,
): Promise<string | undefined> {
  const property = fc.asyncProperty(requests, async (generated) => {
    const wrong = await attempt(generated);
    if (wrong !== undefined) throw new Error(wrong);
  });
  const limit = timeLimitMs === undefined ? {} : { interruptAfterTimeLimit: timeLimitMs };
  const result = await fc.check(property, { seed: seedOf(name, seed), numRuns: runs, ...limit });
  if (!result.failed || result.errorInstance === null) return undefined;
  return [
    `${name}: ${describe(result.errorInstance)}`,
    `found by request ${result.numRuns}, shrunk ${result.numShrinks} times; reproduce it with`,
    `npm run fuzz -- --seed ${seed} --requests ${result.numRuns} --only '${name}'`,
  ].join('\n  ');
}

function describe(error: unknown): string {
  return error instanceof Error ? error.message : JSON.stringify(error);
}

/** Derives a seed for each lane from the run's seed. */
function seedOf(name: string, seed: number): number {
  return [...name].reduce((sum, character) => (sum * 31 + character.charCodeAt(0)) | 0, seed);
}

/**
 * Discards credentials that a successful change may have ended, and valid ones that are refused because another lane
 * ended them.
 */
function replaceUsedUp(
  actors: Actors,
  { wire, kinds }: SentRequest,
  { credentials }: GeneratedRequest,
  answer: Answer | Failure,
): void {
  if ('failure' in answer) return;
  const { status } = answer;
  const hasChanged = CHANGING.test(wire.method) && status < 300 && !wire.target.includes('/internal/');
  const wasEnded = credentials.verdict === 'good' && [401, 404, 409].includes(status);
  if (hasChanged || wasEnded) actors.spend(kinds);
}
