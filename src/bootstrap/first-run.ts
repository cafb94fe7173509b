import { existsSync, rmSync } from 'node:fs';
import { createFile } from '../foundation/common/durable-file.js';
import { EXAMPLES } from '../foundation/common/names.js';
import { bracketHost } from '../foundation/common/network.js';
import { EnvFile, FileChangedError } from '../foundation/config/env-file.js';
import { isGivenToProcess, type Environment, type Variables } from '../foundation/config/environment.js';
import { generateSecret, generateVariable } from '../foundation/crypto/secret.js';
import { EmbeddedPostgres } from '../foundation/embedded-postgres/embedded-postgres.js';

const FILE = '.env';
const HEADING = '# Made on the first start, for this machine only. See .env.example for what else can be set.';
const PROPOSAL = '.first-start.env';
const GENERATED = ['SECRET_KEY', 'MASTER_KEY', 'ADMIN_API_KEY', 'AUDIT_SEAL_KEY'] as const;
const DATA_FOLDER = '.data/postgres';

/**
 * Generates the missing secrets and writes them to the gitignored `.env` (mode 0600); concurrent starts agree on the
 * same ones. Never called in production.
 * @returns the variables with the generated secrets
 */
export function ensureSecrets(variables: Variables): Variables {
  const missing = listMissing(variables);
  if (missing.length === 0) {
    removeOldProposal();
    return variables;
  }
  // The file can be created once, so concurrent starts all read the values of the first one.
  createFile(PROPOSAL, Buffer.from(GENERATED.map((name) => `${name}=${generateVariable(name)}\n`).join('')));
  const proposal = EnvFile.read(PROPOSAL);
  const file = EnvFile.read(FILE);
  if (!proposal.exists) return ensureSecrets(variables);
  const generated = missing.filter((name) => file.get(name) === undefined);
  for (const name of missing) {
    const value = file.get(name) ?? proposal.get(name);
    if (value === undefined) throw new Error(`${PROPOSAL} has no ${name}: delete this file and start again`);
    file.set(name, value);
  }
  try {
    if (file.needsWriting) file.write(HEADING);
  } catch (error) {
    if (error instanceof FileChangedError) return ensureSecrets(variables);
    throw error;
  }
  rmSync(PROPOSAL, { force: true });
  if (generated.length > 0) console.log(`Generated ${generated.join(', ')}, now in ${FILE}`);
  return { ...variables, ...Object.fromEntries(missing.map((name) => [name, file.get(name)])) };
}

/** Removes the proposal of a killed start. While a live start still needs it, `.env` is not complete. */
function removeOldProposal(): void {
  if (!existsSync(PROPOSAL)) return;
  const file = EnvFile.read(FILE);
  if (GENERATED.every((name) => file.get(name) !== undefined)) rmSync(PROPOSAL, { force: true });
}

/**
 * MASTER_KEY and AUDIT_SEAL_KEY are generated only with a new SECRET_KEY, because they would neither decrypt nor verify
 * what was made under a present SECRET_KEY alone.
 */
function listMissing(variables: Variables): string[] {
  const names = variables.SECRET_KEY ? ['ADMIN_API_KEY'] : GENERATED;
  return names.filter((name) => !variables[name]);
}

export async function startEmbeddedDatabase(): Promise<EmbeddedPostgres> {
  return EmbeddedPostgres.start({
    folder: DATA_FOLDER,
    makePassword: () => generateSecret(),
    onCreate: () => console.log('Creating a PostgreSQL database (only the first time) …'),
  });
}

/** A URL takes no wildcard address: a client on this machine calls the loopback address instead. */
const LOOPBACKS: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

function toOrigin(host: string): string {
  return `http://${bracketHost(LOOPBACKS[host] ?? host)}`;
}

export function formatWelcome(environment: Environment, embeddedFolder: string | undefined): string {
  const { host, metricsHost, port, internalPort, metricsPort } = environment;
  const origin = toOrigin(host);
  const url = `${origin}:${port}`;
  const internalUrl = `${origin}:${internalPort ?? port}`;
  const internal = internalPort === undefined ? '' : `\n    internal ${internalUrl}/internal/, and the admin routes`;
  const isKeyGiven = isGivenToProcess('ADMIN_API_KEY');
  const place = isKeyGiven ? 'of the environment' : `of ${FILE}`;
  const console =
    environment.console === 'off'
      ? ''
      : `\n    console  ${internalUrl}/console (log in with the ADMIN_API_KEY ${place})`;
  const metrics = metricsPort === undefined ? '' : `\n    metrics  ${toOrigin(metricsHost)}:${metricsPort}/metrics`;
  const docs = environment.docs === 'off' ? 'off' : `${environment.docs === 'internal' ? internalUrl : url}/docs`;
  const json = `-H 'Content-Type: application/json'`;
  const { email, password, householdId, room, name, caller, target } = EXAMPLES;
  const formatBody = (fields: object): string => `${json} -d '${JSON.stringify(fields)}'`;
  const adminKey = isKeyGiven ? '<ADMIN_API_KEY>' : `$(sed -n 's/^ADMIN_API_KEY=//p' ${FILE} | tail -n 1)`;
  const admin = `-H "X-Admin-Key: ${adminKey}"`;
  return `
  The authentication service is ready.

    docs     ${docs}
    health   ${url}/health${internal}${console}${metrics}
    data     ${embeddedFolder === undefined ? 'the PostgreSQL of DATABASE_URL' : `an embedded PostgreSQL, in ${embeddedFolder}`}

  A user registers and logs in:
    curl ${url}/api/v0/auth/register ${formatBody({ email, password })}
    curl ${url}/api/v0/auth/login ${formatBody({ email, password })}
    curl ${url}/api/v0/users/me -H 'Authorization: Bearer <access_token>'

  An administrator issues a key for a pair of services, and one for a node (the admin key is the ADMIN_API_KEY ${place}):
    curl ${internalUrl}/api/v0/admin/app-credentials ${admin} ${formatBody({ caller, target })}
    curl ${internalUrl}/api/v0/admin/nodes ${admin} ${formatBody({ household_id: householdId, room, name })}

  A service validates a credential that a caller presented to it:
    curl -X POST ${internalUrl}/internal/validate-app -H 'X-Platform-App-Id: <app_id>' -H 'X-Platform-App-Key: <app_key>' ${formatBody({ target })}
    curl -X POST ${internalUrl}/internal/validate-node -H 'X-API-Key: <node_id>:<api_key>'
`;
}
