// A service that acts on events, reduced to a ledger: it appends a line of JSON for each event, and one for each reset.
// It sometimes stops between reading and acting, or between acting and acknowledging.
import { appendFileSync } from 'node:fs';
import { Verifier, type PlatformEvent } from '../../clients/typescript/src/index.js';

const STOP_CODE = 3;
const STOP_PROBABILITY = 1 / 300;

const [, , ledger = ''] = process.argv;
const verifier = Verifier.fromEnvironment();

function maybeStop(): void {
  if (Math.random() < STOP_PROBABILITY) process.exit(STOP_CODE);
}

function append(entry: PlatformEvent | { readonly reset: number }): void {
  appendFileSync(ledger, `${JSON.stringify(entry)}\n`);
}

function act(event: PlatformEvent): void {
  maybeStop();
  // The event comes again after a second.
  if (Math.random() < STOP_PROBABILITY) throw new Error('This event was not acted on');
  append(event);
  maybeStop();
}

for (;;) {
  try {
    for await (const event of verifier.events({ onReset: () => append({ reset: Date.now() }) })) act(event);
  } catch (error) {
    if (!(error instanceof Error && error.message.includes('not acted on'))) throw error;
  }
}
