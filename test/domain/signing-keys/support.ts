import { createLocalJWKSet, decodeProtectedHeader, jwtVerify, type JSONWebKeySet } from 'jose';
import { COMMAND_LINE } from '../../../src/foundation/access/actor.js';
import { AuditLog } from '../../../src/domain/audit/audit-log.js';
import { DatabaseClock } from '../../../src/foundation/database/database.js';
import { Propagation } from '../../../src/domain/revocation/propagation.js';
import { KeyMaterialJob } from '../../../src/domain/maintenance/jobs.js';
import { SigningKeyOperations } from '../../../src/domain/signing-keys/signing-key-rotation.js';
import { DataSource } from 'typeorm';
import type { TestApp } from '../../support/test-app.js';

export const ES256 = { ACCESS_TOKEN_ALGORITHM: 'ES256' };

export async function readJwks(app: TestApp): Promise<JSONWebKeySet> {
  return (await app.get('/.well-known/jwks.json').expect(200)).body as JSONWebKeySet;
}

export async function listKids(app: TestApp): Promise<string[]> {
  return (await readJwks(app)).keys.map(({ kid }) => kid!);
}

export const kidOf = (token: string): string | undefined => decodeProtectedHeader(token).kid;

/** As a service does that has nothing but the JWKS. */
export async function verifyByJwks(app: TestApp, token: string) {
  const options = { issuer: 'platform-auth', algorithms: ['ES256'], currentDate: app.clock.now() };
  return jwtVerify(token, createLocalJWKSet(await readJwks(app)), options);
}

/** What `platform-auth keys` does, by the clock of the test. */
export class Operator {
  private readonly keys: SigningKeyOperations;

  constructor({ nest }: TestApp) {
    const get = <Type>(type: new (...parameters: never[]) => Type): Type => nest.get<Type>(type, { strict: false });
    this.keys = new SigningKeyOperations(get(DataSource), get(AuditLog), get(Propagation), get(DatabaseClock));
  }

  rotate = (): Promise<void> => this.keys.rotateActiveKey(COMMAND_LINE);
  retire = (kid: string): Promise<void> => this.keys.retireKey(kid, COMMAND_LINE);
  revoke = (kid: string): Promise<void> => this.keys.revokeKey(kid, COMMAND_LINE);

  async states(): Promise<Record<string, string>> {
    return Object.fromEntries((await this.keys.listKeys()).map(({ kid, state }) => [kid, state]));
  }
}

export async function maintain(app: TestApp): Promise<void> {
  await app.nest.get(KeyMaterialJob).renewKeyMaterial();
}
