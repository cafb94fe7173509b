import fc from 'fast-check';
import { asCurl, onTheWire } from './send.js';

const CHANGING = /^(POST|PATCH|DELETE|PUT)$/;

/**
 * Sends generated requests one after the other until a response is wrong, and then shrinks that request.
 * @param lane `{ name, requests, attempt }`: `attempt` sends one and returns what is wrong with its response, or undefined
 * @returns undefined, or a report of what is wrong and how to reproduce it
 */
export async function runLane({ name, requests, attempt }, { seed, runs, timeLimitMs }) {
  const property = fc.asyncProperty(requests, async (generated) => {
    const wrong = await attempt(generated);
    if (wrong) throw new Error(wrong);
  });
  const limit = timeLimitMs === undefined ? {} : { interruptAfterTimeLimit: timeLimitMs };
  const result = await fc.check(property, { seed: seedOf(name, seed), numRuns: runs, ...limit });
  if (!result.failed || result.errorInstance === null) return undefined;
  return [
    `${name}: ${result.errorInstance.message}`,
    `found by request ${result.numRuns}, shrunk ${result.numShrinks} times; reproduce it with`,
    `npm run fuzz -- --seed ${seed} --requests ${result.numRuns} --only '${name}'`,
  ].join('\n  ');
}

/** A different seed for each lane, derived from the run's seed. */
const seedOf = (name, seed) => [...name].reduce((sum, character) => (sum * 31 + character.charCodeAt(0)) | 0, seed);

/** @returns a lane that sends well-formed HTTP */
export function httpLane(name, requests, { client, actors, judge, progress }) {
  const attempt = async (generated) => {
    const sent = await onTheWire(generated, actors);
    const answer = await client.send(sent.wire);
    progress.requests += 1;
    const wrong = judge.verdict(generated, sent, answer);
    replaceUsedUp(actors, sent, generated, answer);
    return wrong && `${wrong}\n  ${asCurl(client.port, sent.wire)}`;
  };
  return { name, requests, attempt };
}

/** A successful change may have ended a credential; a valid one that is refused was ended by another lane. */
function replaceUsedUp(actors, { wire, kinds }, { credentials }, { status }) {
  const changed = CHANGING.test(wire.method) && status < 300 && !wire.target.includes('/internal/');
  const wasEnded = credentials.verdict === 'good' && [401, 404, 409].includes(status);
  if (changed || wasEnded) actors.spend(kinds);
}
