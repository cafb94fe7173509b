import { Injectable } from '@nestjs/common';
import type { Networks } from '../common/network.js';
import type { RefusalEventName, RefusalReason } from '../common/refusal-reasons.js';
import { Environment } from '../config/environment.js';
import { SITE_BUDGET_FACTOR, type Limit } from '../config/limits.js';
import { computeMac, deriveKey } from '../crypto/secret.js';

export type ThrottleEvent = Extract<RefusalEventName, `${string}.throttled`>;

/** What is counted. A known network is remembered in the same way, and refuses nothing. */
type BudgetName = RefusalReason<ThrottleEvent> | 'known-address';

/** The tries of one kind for one account, for one network, or for both: what one row counts. */
export interface Budget {
  /** Of the limit: in the header, in the log, and before the colon of the key. */
  readonly name: BudgetName;
  readonly key: string;
  readonly limit: Limit;
}

/** What a limit is counted by. */
interface Subject {
  /** Canonical e-mail address, or id of a user. Absent: all accounts together. */
  readonly account?: string;
  /** Absent: all networks together. */
  readonly networks?: Networks;
}

const ALL_NETWORKS: Networks = [''];

/** Makes the budgets of a limit, each with the key of its row. */
@Injectable()
export class Budgets {
  private readonly digestKey;

  constructor({ secretKey }: Environment) {
    this.digestKey = deriveKey(secretKey, 'platform-auth/throttle-keys/v1');
  }

  /** @returns one for each network. Keys are HMACs, so that a dump reveals no account and no network (ASVS 14.2) */
  create(name: BudgetName, limit: Limit, { account, networks = ALL_NETWORKS }: Subject): [Budget, ...Budget[]] {
    const toBudget = (network: string, points: number): Budget => {
      const counted = account === undefined ? network : `${account}\n${network}`;
      const digest = computeMac(this.digestKey, counted).toString('base64url');
      return { name, key: `${name}:${digest}`, limit: { ...limit, points } };
    };
    const [narrowest, ...sites] = networks;
    const { points } = limit;
    return [toBudget(narrowest, points), ...sites.map((site) => toBudget(site, points * SITE_BUDGET_FACTOR))];
  }
}
