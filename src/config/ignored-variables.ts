import leven from 'leven';
import { readProcessVariables, toFileVariable, type Variables } from './environment.js';
import { FILE_VARIABLES, VARIABLE_TYPES } from './variables.js';

// Variables that are set and do nothing: those of earlier versions, and most likely misspelt ones.

/** Their values are fixed now (limits.ts, throttling.md); LOG_LEVEL=debug does what LOG_VALIDATIONS did. */
const REMOVED_VARIABLES = new Set(
  `ADMIN_KEY_LIMIT_PER_ADDRESS AUDIT_SEAL_INTERVAL_SECONDS CREDENTIAL_KEEP_DAYS CREDENTIAL_MEMORY_SIZE
  DATABASE_CONNECT_TIMEOUT_MS DATABASE_STATEMENT_TIMEOUT_MS HASHING_BUSY_LIMIT_PER_ADDRESS HASH_QUEUE_LIMIT
  HASH_THREADS HEALTH_TIMEOUT_MS KEY_OVERLAP_HOURS KNOWN_ADDRESS_DAYS LINK_LIMIT_PER_ADDRESS LOG_VALIDATIONS
  MAIL_LIMIT_PER_ACCOUNT MAIL_LIMIT_PER_ADDRESS PURGE_INTERVAL_MINUTES REVOCATION_WAIT_MS SECOND_FACTOR_LIMIT_PER_ACCOUNT
  SECOND_FACTOR_LIMIT_PER_ADDRESS SESSION_KEEP_DAYS SESSION_LIMIT_PER_USER SHUTDOWN_DEADLINE_MS
  START_TIMEOUT_SECONDS`.split(/\s+/),
);

const KNOWN_VARIABLES = new Set([...Object.keys(VARIABLE_TYPES), ...FILE_VARIABLES.map(toFileVariable)]);
/** One edit for each five characters, at most two: PORT and HOST resemble too many names of other programs. */
const CHARACTERS_PER_EDIT = 5;
const MAX_EDITS = 2;

/** What other programs, and our command line, read from the same `.env`. */
const OF_OTHER_PROGRAMS = /^(AUTH_URL|PLATFORM_|OTEL_|NODE_|PG|POSTGRES_|COMPOSE_|DOCKER_)/;

/** @param ofProcess the environment, which holds the variables of all programs; the others are from our `.env` */
export function describeIgnoredVariables(variables: Variables, ofProcess = readProcessVariables()): string | undefined {
  const names = Object.keys(variables).filter((name) => variables[name] && !KNOWN_VARIABLES.has(name));
  const removed = names.filter((name) => REMOVED_VARIABLES.has(name)).map((name) => `${name} was removed`);
  const misspelt = names
    .filter((name) => !REMOVED_VARIABLES.has(name))
    .flatMap((name) => {
      const similar = findSimilar(name, variables);
      if (similar !== undefined) return [`${name} is not known (${similar}?)`];
      return ofProcess[name] || OF_OTHER_PROGRAMS.test(name) ? [] : [`${name} in .env is not known`];
    });
  const reasons = [...removed, ...misspelt];
  return reasons.length === 0 ? undefined : reasons.join('; ');
}

/** @returns a variable of ours that is not set, and differs from the name by a typing error at most */
function findSimilar(name: string, variables: Variables): string | undefined {
  return [...KNOWN_VARIABLES].find((known) => {
    const edits = Math.min(MAX_EDITS, Math.floor(known.length / CHARACTERS_PER_EDIT));
    return !variables[known] && leven(name.toUpperCase(), known) <= edits;
  });
}
