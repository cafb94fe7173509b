/** What is counted by the hour, and what the counts are of. */
export const COUNTERS = {
  logins: 'right passwords and passkeys, also where a second factor was still due',
  failed_logins: 'wrong passwords, codes and passkeys, and logins of disabled accounts',
  throttled_guesses: 'guesses at passwords, codes and admin keys that were refused unseen, because there were too many',
  refused_keys: 'keys of apps, nodes and operators that were refused',
  new_sessions: 'logins that were completed',
  validations: 'keys and tokens that this service accepted for another service',
} as const;

export type CounterName = keyof typeof COUNTERS;
export const COUNTER_NAMES = Object.keys(COUNTERS) as CounterName[];
export type Counts = Record<CounterName, number>;

export const createCounts = (): Counts => Object.fromEntries(COUNTER_NAMES.map((name) => [name, 0])) as Counts;
