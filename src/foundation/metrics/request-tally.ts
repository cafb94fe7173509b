import { Injectable } from '@nestjs/common';
import { createCounts, type CounterName, type Counts } from '../common/hourly-counters.js';
import type { RefusalEventName } from '../common/security-events.js';
import type { CompletedRequest } from '../http/request-log.js';

const REFUSALS: Readonly<Partial<Record<RefusalEventName, CounterName>>> = {
  // The password was right. The session begins with the second factor.
  'user.login.challenged': 'logins',
  'user.login.failed': 'failed_logins',
  'user.second_factor.failed': 'failed_logins',
  'user.login.throttled': 'throttled_guesses',
  'user.second_factor.throttled': 'throttled_guesses',
  'node.enrolment.throttled': 'throttled_guesses',
  'household.invitation.throttled': 'throttled_guesses',
  'admin.key.throttled': 'throttled_guesses',
  'app.validation.failed': 'refused_keys',
  'node.validation.failed': 'refused_keys',
  'admin.key.refused': 'refused_keys',
};

/** What this process has counted since its start. Unlike RequestMetrics it counts without METRICS_PORT too. */
@Injectable()
export class RequestTally {
  private readonly total = createCounts();

  get counts(): Readonly<Counts> {
    return this.total;
  }

  /** Must stay synchronous and cheap, because every validation pays for it (docs/decisions/0057). */
  count({ request, response }: CompletedRequest): void {
    const refusal = request.refused?.refusal;
    if (refusal) {
      const counter = REFUSALS[refusal.event];
      if (counter) this.total[counter] += 1;
    } else if (response.headersSent && response.statusCode === 200) {
      for (const counter of request.declared?.countedAs ?? []) this.total[counter] += 1;
    }
  }
}
