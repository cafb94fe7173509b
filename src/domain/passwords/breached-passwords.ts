/**
 * Asks a service that knows passwords of breaches (ASVS 6.2.12), which the operator names: none is asked by default. Only
 * the first five hexadecimal digits of the SHA-1 digest leave this service (k-anonymity), in the protocol of Have I
 * Been Pwned. Fails open, because registrations must not depend on a stranger.
 */
import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { circuitBreaker, ConsecutiveBreaker, handleAll } from 'cockatiel';
import { Counter } from 'prom-client';
import { Environment } from '../../foundation/config/environment.js';
import { Log } from '../../foundation/logging/log.js';
import { MetricsRegistry, PREFIX } from '../../foundation/metrics/metrics-registry.js';

const PREFIX_LENGTH = 5;
const ANSWER_TIMEOUT_MS = 2_000;
const RETRY_AFTER_MS = 30_000;
/** About ten times what Have I Been Pwned answers. */
const MAX_ANSWER_BYTES = 500_000;

/** `unavailable`: the password was accepted without an answer. */
const OUTCOMES = ['unknown', 'breached', 'unavailable'] as const;

@Injectable()
export class BreachedPasswords {
  private readonly url: string | undefined;
  private readonly checks: Counter;
  /** Asks a service that does not answer only once in a while, so that it does not delay every registration. */
  private readonly breaker = circuitBreaker(handleAll, {
    breaker: new ConsecutiveBreaker(1),
    halfOpenAfter: RETRY_AFTER_MS,
  });

  constructor(environment: Environment, metrics: MetricsRegistry, log: Log) {
    this.url = environment.passwordBreachCheckUrl;
    this.checks = new Counter({
      name: `${PREFIX}password_breach_checks_total`,
      help: 'New passwords that were looked up among those of breaches, by the outcome.',
      labelNames: ['outcome'],
      registers: [metrics.registry],
    });
    for (const outcome of OUTCOMES) this.checks.inc({ outcome }, 0);
    this.breaker.onBreak(() => log.warn('password_breach_check_unavailable'));
    this.breaker.onReset(() => log.info('password_breach_check_available'));
  }

  /** @returns false also when nothing is configured, or no answer came */
  async isBreached(password: string): Promise<boolean> {
    const { url } = this;
    if (url === undefined) return false;
    const digest = createHash('sha1').update(password).digest('hex').toUpperCase();
    const suffix = digest.slice(PREFIX_LENGTH);
    try {
      const lines = await this.breaker.execute(() => fetchRange(url, digest.slice(0, PREFIX_LENGTH)));
      // A line of padding has the count 0.
      const isBreached = lines.some((line) => line.toUpperCase().startsWith(`${suffix}:`) && !/:0*\s*$/.test(line));
      this.checks.inc({ outcome: isBreached ? 'breached' : 'unknown' });
      return isBreached;
    } catch {
      this.checks.inc({ outcome: 'unavailable' });
      return false;
    }
  }
}

async function fetchRange(url: string, prefix: string): Promise<string[]> {
  const response = await fetch(`${url.replace(/\/*$/, '/')}${prefix}`, {
    // Padding hides from an observer of the connection which range was asked for.
    headers: { 'Add-Padding': 'true', 'User-Agent': 'platform-auth' },
    redirect: 'error',
    signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
  });
  if (!response.ok || !response.body) throw new Error(`The breach check answered ${response.status}`);
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body) {
    size += chunk.length;
    if (size > MAX_ANSWER_BYTES) throw new Error('The answer of the breach check is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('latin1').split('\n');
}
