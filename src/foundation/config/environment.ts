// The configuration: environment variables, validated at the start and never read again. Invariants: a message names a
// variable and never shows its value; an empty variable counts as unset; production does not read `.env`.

import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { computeFixedSettings, replacedSettings, type FixedSettings } from './limits.js';
import { FILE_VARIABLES, schema, VARIABLE_TYPES, type Parsed, type Values, type VariableName } from './variables.js';

export type Variables = Readonly<Record<string, string | undefined>>;

/** `DATABASE_POOL_SIZE` becomes `databasePoolSize`. */
type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Rest}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>;

type Settings = FixedSettings & { readonly [Name in keyof Values as CamelCase<Name>]-?: Values[Name] };

/** A class can inherit properties that are inferred from a schema, and cannot declare them. */
const InferredSettings = Object as unknown as new () => Settings;

/** Every validated variable under its name in camel case, and the fixed settings. */
export class Environment extends InferredSettings {
  /** Whether this process is a worker, for which the primary has run the migrations. */
  readonly isWorker!: boolean;
}

/** Returns the name that mails and authenticator apps show. */
export function getProductName({
  productName,
  webauthnRpId,
  serviceName,
}: Pick<Environment, 'productName' | 'webauthnRpId' | 'serviceName'>): string {
  return productName ?? webauthnRpId ?? serviceName;
}

export function isSecondFactorRequired(
  { secondFactorRequired }: Pick<Environment, 'secondFactorRequired'>,
  now: Date,
): boolean {
  return now >= secondFactorRequired;
}

export class InvalidEnvironmentError extends Error {
  override readonly name = 'InvalidEnvironmentError';

  constructor(readonly problems: string[]) {
    super(`The configuration is not usable:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`);
  }
}

/** @throws {InvalidEnvironmentError} naming every variable that is missing or not valid */
export function parseEnvironment(variables: Variables, replaced = replacedSettings): Environment {
  const { data: values, error } = schema.safeParse(dropEmpty(variables));
  if (error) throw new InvalidEnvironmentError(error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));
  const settings = Object.keys(VARIABLE_TYPES).map((name) => [toCamelCase(name), values[name as VariableName]]);
  const fixed = { ...computeFixedSettings(values), ...replaced };
  return { ...(Object.fromEntries(settings) as Settings), ...fixed, isWorker: false };
}

function toCamelCase(name: string): string {
  return name.toLowerCase().replace(/_(.)/g, (_match, letter: string) => letter.toUpperCase());
}

/**
 * Selects the variables that a worker gets beside its inherited environment: those of this service only, because an
 * environment file may contain others.
 */
export function selectWorkerVariables(variables: Variables): Variables {
  return Object.fromEntries(Object.keys(VARIABLE_TYPES).map((name) => [name, variables[name]]));
}

/** Reads the environment of a worker, to which the primary has passed every variable, so that it reads no file. */
export function readWorkerEnvironment(): Environment {
  return { ...parseEnvironment(process.env), isWorker: true };
}

/** Whether the standard variables of OpenTelemetry ask for traces. */
export function isTracingRequested(variables: Variables = process.env): boolean {
  if (variables.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || variables.OTEL_TRACES_EXPORTER === 'none') return false;
  const settings = [
    variables.OTEL_TRACES_EXPORTER,
    variables.OTEL_EXPORTER_OTLP_ENDPOINT,
    variables.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
  ];
  return settings.some((setting) => setting !== undefined && setting !== '');
}

export function readProcessVariables(): Variables {
  return dropEmpty(process.env);
}

/**
 * Reads the variables of this process, which override those of the environment file unless they are empty. Production
 * does not read the file.
 */
export function readVariables(file = '.env'): Variables {
  const given = readProcessVariables();
  return given.NODE_ENV === 'production' ? given : overrideVariables(readFileVariables(file), given);
}

function readFileVariables(file: string): Variables {
  try {
    return dropEmpty(parse(readFileSync(file)));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
}

/** Whether the environment of this process sets a variable or its `_FILE`, which then overrides the environment file. */
export function isGivenToProcess(name: VariableName): boolean {
  return isSetIn(readProcessVariables(), name);
}

/** @returns where {@link readVariables} found a variable, as words that follow its name in a sentence */
export function describeSource(name: VariableName): string {
  if (!isGivenToProcess(name)) return 'of .env';
  const isOverriding = process.env.NODE_ENV !== 'production' && isSetIn(readFileVariables('.env'), name);
  return isOverriding ? 'of the environment, which overrides that of .env,' : 'of the environment';
}

function isSetIn(variables: Variables, name: VariableName): boolean {
  return Boolean(variables[name] ?? variables[toFileVariable(name)]);
}

/** A secret and the name of its file count as one variable: overriding one of them removes the other. */
export function overrideVariables(variables: Variables, overriding: Variables): Variables {
  const pairs = FILE_VARIABLES.map((name) => [name, toFileVariable(name)]);
  const dropped = new Set(pairs.filter((pair) => pair.some((name) => overriding[name])).flat());
  const kept = Object.entries(variables).filter(([name]) => !dropped.has(name));
  return { ...Object.fromEntries(kept), ...overriding };
}

export function toFileVariable(name: string): string {
  return `${name}_FILE`;
}

function dropEmpty(variables: Variables): Variables {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''));
}

/**
 * Reads secrets from files: `SECRET_KEY_FILE` names the file of `SECRET_KEY`. Messages show neither the content nor the
 * path, which may be a secret in the wrong variable.
 * @param names the variables that the caller needs, because it may lack the right to read the files of others
 * @returns the variables with those secrets in place of the names of their files
 * @throws {InvalidEnvironmentError} when a secret is given in both ways, or its file is unreadable, empty or not text
 */
export function readSecretFiles(variables: Variables, names: readonly VariableName[] = FILE_VARIABLES): Variables {
  const result = new Map(Object.entries(variables));
  const problems: string[] = [];
  for (const name of names) {
    const fileVariable = toFileVariable(name);
    const path = variables[fileVariable];
    if (!path) continue;
    result.delete(fileVariable);
    if (variables[name]) {
      problems.push(`${name} and ${fileVariable} are both set: remove one of them`);
      continue;
    }
    const { value, problem } = readSecret(path);
    if (problem !== undefined) problems.push(`${fileVariable} names a file that ${problem}`);
    result.set(name, value);
  }
  if (problems.length > 0) throw new InvalidEnvironmentError(problems);
  return Object.fromEntries(result);
}

function readSecret(path: string): { value?: string; problem?: string } {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    return { problem: `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})` };
  }
  if (!isUtf8(bytes) || bytes.includes(0)) return { problem: 'is not text (UTF-8 without NUL bytes)' };
  // Keeps a byte order mark as a part of the secret, as other programs that read the file do.
  const value = bytes.toString().replace(/\r?\n$/, '');
  return value === '' ? { problem: 'is empty' } : { value };
}

/** Parses one variable for a command that may not need, or know, the others. */
export function parseVariable<Name extends VariableName>(variables: Variables, name: Name): Parsed[Name] {
  const given = readSecretFiles(variables, FILE_VARIABLES.includes(name) ? [name] : []);
  const { data, error } = VARIABLE_TYPES[name].safeParse(given[name]);
  if (error) throw new InvalidEnvironmentError(error.issues.map(({ message }) => `${name} ${message}`));
  return data as Parsed[Name];
}

/** @throws {InvalidEnvironmentError} when none of AUDIT_SEAL_KEY, MASTER_KEY and SECRET_KEY is valid */
export function parseAuditSealSecret(variables: Variables): string {
  const own = parseVariable(variables, 'AUDIT_SEAL_KEY') ?? parseVariable(variables, 'MASTER_KEY');
  if (own !== undefined) return own;
  const derived = readSecretFiles(variables, ['SECRET_KEY']);
  if (derived.SECRET_KEY === undefined)
    throw new InvalidEnvironmentError(['AUDIT_SEAL_KEY (or MASTER_KEY, if the service has none) is required']);
  return parseVariable(derived, 'SECRET_KEY');
}

export type TokenSettings = ReturnType<typeof parseTokenSettings>;

export function parseTokenSettings(variables: Variables) {
  return {
    algorithm: parseVariable(variables, 'ACCESS_TOKEN_ALGORITHM'),
    issuer: parseVariable(variables, 'JWT_ISSUER'),
    audience: parseVariable(variables, 'JWT_AUDIENCE'),
  };
}
