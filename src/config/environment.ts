import { readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { toCamelCase, type CamelCase } from './camel-case.js';
import { FILE_VARIABLES, schema, VARIABLE_TYPES, type Values } from './variables.js';

/** Raw variables by name, as a process or an environment file holds them. */
export type Variables = Readonly<Record<string, string | undefined>>;

type Settings = { readonly [Name in keyof Values as CamelCase<Name>]-?: Values[Name] };

/** A class cannot declare properties that are inferred from a schema; it can inherit them. */
const InferredSettings = Object as unknown as new () => Settings;

/** Everything that can be configured, validated. `DATABASE_POOL_SIZE` is `databasePoolSize`. */
export class Environment extends InferredSettings {
  /** This process is a worker: the primary has run the migrations. */
  readonly isWorker!: boolean;
}

/** The configuration is not valid. Each problem names a variable and never shows its value. */
export class InvalidEnvironmentError extends Error {
  override readonly name = 'InvalidEnvironmentError';

  constructor(readonly problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/**
 * Validates raw variables.
 * @param variables as {@link readVariables} returns them; an empty value counts as unset
 * @returns the typed environment with every default filled in
 * @throws {InvalidEnvironmentError} naming every variable that is missing or not valid
 */
export function parseEnvironment(variables: Variables): Environment {
  const values: Readonly<Record<string, unknown>> = validate(variables);
  const settings = Object.keys(VARIABLE_TYPES).map((name) => [toCamelCase(name), values[name]]);
  return { ...(Object.fromEntries(settings) as Settings), isWorker: false };
}

function validate(variables: Variables): Values {
  const parsed = schema.safeParse(dropEmpty(variables));
  if (parsed.success) return parsed.data;
  throw new InvalidEnvironmentError(parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));
}

/**
 * Selects the variables that a worker gets in addition to the environment that it inherits: those of this service only,
 * because an environment file may contain others.
 */
export function selectWorkerVariables(variables: Variables): Variables {
  return Object.fromEntries(Object.keys(VARIABLE_TYPES).map((name) => [name, variables[name]]));
}

/** Reads the environment of a worker, which has every variable and reads no file. */
export function readWorkerEnvironment(): Environment {
  return { ...parseEnvironment(process.env), isWorker: true };
}

/** Whether the standard variables of OpenTelemetry, in the environment of this process, ask for traces. */
export function isTracingRequested(variables: Variables = process.env): boolean {
  if (variables.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || variables.OTEL_TRACES_EXPORTER === 'none') return false;
  const settings = [
    variables.OTEL_TRACES_EXPORTER,
    variables.OTEL_EXPORTER_OTLP_ENDPOINT,
    variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
  ];
  return settings.some((setting) => setting !== undefined && setting !== '');
}

/**
 * Reads the variables of this process, which override those of the environment file. An empty variable counts as unset,
 * and overrides nothing. Production does not read the file.
 * @param file path of the environment file; it need not exist
 */
export function readVariables(file = '.env'): Variables {
  const given = dropEmpty(process.env);
  if (given.NODE_ENV === 'production') return given;
  try {
    return overrideVariables(dropEmpty(parse(readFileSync(file))), given);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return given;
    throw error;
  }
}

/** A secret and the name of its file are one: if one of them is overridden, the other goes too. */
export function overrideVariables(variables: Variables, overriding: Variables): Variables {
  const pairs = FILE_VARIABLES.map((name) => [name, toFileVariable(name)]);
  const dropped = new Set(pairs.filter((pair) => pair.some((name) => overriding[name])).flat());
  const kept = Object.entries(variables).filter(([name]) => !dropped.has(name));
  return { ...Object.fromEntries(kept), ...overriding };
}

/** @returns the variable that names the file of a secret */
export function toFileVariable(name: string): string {
  return `${name}_FILE`;
}

function dropEmpty(variables: Variables): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''));
}
