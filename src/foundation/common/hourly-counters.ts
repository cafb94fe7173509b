export const DAY_HOURS = 24;

/** What is counted by the hour, and what the counts are of. */
export const COUNTERS = {
  logins: 'right passwords and passkeys, also where a second factor was still due',
  failed_logins: 'wrong passwords, codes and passkeys, and logins of disabled accounts',
  throttled_guesses:
    'guesses at passwords, codes and admin keys that were refused before they were verified, because there were too many',
  refused_keys: 'keys of apps, nodes and operators that were refused',
  new_sessions: 'logins that were completed',
  validations: 'keys and tokens that this service accepted for another service',
} as const;

export type CounterName = keyof typeof COUNTERS;
export const COUNTER_NAMES = Object.keys(COUNTERS) as CounterName[];
export type Counts = Record<CounterName, number>;

export const createCounts = (): Counts => Object.fromEntries(COUNTER_NAMES.map((name) => [name, 0])) as Counts;

type Hour = Readonly<Counts & { hour: string }>;

/** @param hours 48 of them, the present one last @returns the sums of today and yesterday, in UTC */
export function sumDays(hours: readonly Hour[]): Record<'today' | 'yesterday', Counts> {
  const today = hours.at(-1)?.hour.slice(0, 10);
  const ofToday = hours.filter(({ hour }) => hour.startsWith(today ?? ''));
  return { today: sum(ofToday), yesterday: sum(hours.slice(0, -ofToday.length).slice(-DAY_HOURS)) };
}

function sum(hours: readonly Hour[]): Counts {
  const total = createCounts();
  for (const hour of hours) for (const name of COUNTER_NAMES) total[name] += hour[name];
  return total;
}
