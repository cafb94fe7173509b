// Warns of variables that are set and do nothing, because their names are most likely misspelt.
import leven from 'leven';
import { readProcessVariables, toFileVariable, type Variables } from '../foundation/config/environment.js';
import { FILE_VARIABLES, VARIABLE_TYPES } from '../foundation/config/variables.js';

const KNOWN_VARIABLES = new Set([...Object.keys(VARIABLE_TYPES), ...FILE_VARIABLES.map(toFileVariable)]);
/** Allows one edit for each five characters, at most two, because PORT and HOST resemble too many names of other programs. */
const CHARACTERS_PER_EDIT = 5;
const MAX_EDITS = 2;

/** Other programs, and our command line, read these variables from the same `.env`. */
const OF_OTHER_PROGRAMS = /^(AUTH_URL|PLATFORM_|OTEL_|NODE_|PG|POSTGRES_|COMPOSE_|DOCKER_)/;

/** @param ofProcess the variables of all programs; those that only `variables` has come from our `.env` */
export function describeIgnoredVariables(variables: Variables, ofProcess = readProcessVariables()): string | undefined {
  const names = Object.keys(variables).filter((name) => variables[name] && !KNOWN_VARIABLES.has(name));
  const reasons = names.flatMap((name) => {
    const similar = findSimilar(name, variables);
    if (similar !== undefined) return [`${name} is not known (${similar}?)`];
    return ofProcess[name] || OF_OTHER_PROGRAMS.test(name) ? [] : [`${name} in .env is not known`];
  });
  return reasons.length === 0 ? undefined : reasons.join('; ');
}

/** @returns a variable of ours that is not set, and from which the name differs by a typing error */
function findSimilar(name: string, variables: Variables): string | undefined {
  return [...KNOWN_VARIABLES].find((known) => {
    const edits = Math.min(MAX_EDITS, Math.floor(known.length / CHARACTERS_PER_EDIT));
    return !variables[known] && leven(name.toUpperCase(), known) <= edits;
  });
}
