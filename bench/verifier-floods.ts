// What a flood of random keys from one address takes from the other callers of a service that embeds a verifier.
import { setTimeout as sleep } from 'node:timers/promises';
import { randomUUID } from 'node:crypto';
import { RefusedError } from '../clients/typescript/src/errors.js';
import { Verifier } from '../clients/typescript/src/verifier.js';
import type { ApiClient } from '../tools/api-client.js';
import { eventually } from '../tools/eventually.js';
import { itemOf } from './loads.js';
import type { Contestant } from './measure.js';
import type { OwnKey } from './work-messages.js';

/** More than the questions that one door has. */
const FLOOD_CALLERS = 400;
const ATTACKER = '203.0.113.9';
const OTHER = '198.51.100.1';
const NODES = 100;

interface VerifierFlood {
  readonly name: string;
  readonly own: OwnKey;
  readonly client: ApiClient;
}

/**
 * Counts how many new nodes of another address, and how many requests of remembered nodes at the address of the attacker, are
 * accepted while the flood lasts.
 */
export function createVerifierFlood({ name, own, client }: VerifierFlood): Contestant {
  const load = async (seconds: number) => {
    const [known, unknown] = [await registerKeys(client), await registerKeys(client)];
    const { url, appId, appKey, serviceName } = own;
    const verifier = new Verifier({ url, appId, appKey, serviceName });
    const present = (key: string, ip: string): Promise<'accepted' | 'refused' | 'unavailable'> =>
      verifier.verifyNode({ headers: { 'x-api-key': key }, ip }).then(
        () => 'accepted',
        (error: unknown) => (error instanceof RefusedError ? 'refused' : 'unavailable'),
      );
    try {
      for (const key of known)
        await eventually('a key is accepted', async () => (await present(key, ATTACKER)) === 'accepted');
      const flood = new Flood(() => present(`${randomUUID()}:${randomUUID()}`, ATTACKER));
      const pauseMs = (seconds * 1_000) / NODES;
      const answers = { new: [] as string[], known: [] as string[] };
      for (const [index, key] of known.entries()) {
        await sleep(pauseMs);
        answers.known.push(await present(key, ATTACKER));
        answers.new.push(await present(itemOf(unknown, index), OTHER));
      }
      const throughput = await flood.stop();
      return { throughput, newShare: shareOf(answers.new), knownShare: shareOf(answers.known) };
    } finally {
      verifier.close();
    }
  };
  return { name, load };
}

class Flood {
  private readonly startedAt = performance.now();
  private readonly callers: Promise<unknown>;
  private count = 0;
  private isOver = false;

  constructor(private readonly call: () => Promise<unknown>) {
    this.callers = Promise.all(Array.from({ length: FLOOD_CALLERS }, () => this.repeat()));
  }

  /** @returns calls per second */
  async stop(): Promise<number> {
    this.isOver = true;
    const rate = (this.count * 1_000) / (performance.now() - this.startedAt);
    await this.callers;
    return rate;
  }

  private async repeat(): Promise<void> {
    while (!this.isOver) {
      await this.call();
      this.count += 1;
      // A call that is turned away at once would never leave the event loop to others.
      await sleep(1);
    }
  }
}

async function registerKeys(client: ApiClient): Promise<string[]> {
  const keys: string[] = [];
  for (let index = 0; index < NODES; index += 1) {
    const node = { household_id: randomUUID(), room: 'hall', name: `flooded ${index}` };
    const { node_id, api_key } = await client.registerNode(node);
    keys.push(`${node_id}:${api_key}`);
  }
  return keys;
}

const shareOf = (answers: readonly string[]): number =>
  (100 * answers.filter((answer) => answer === 'accepted').length) / answers.length;
