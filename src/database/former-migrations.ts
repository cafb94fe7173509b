/** Version 0.1.0 made the tables in these steps. Its databases keep the names, so that it also still runs on them. */
export const FORMER_MIGRATIONS = `CreateSchema1763683200000 AddKeyHistory1763683300000 CreateAuditEvents1763683400000
  CreateThrottleCounters1763683500000 CreateCredentialChanges1763683600000 CreateThrottleWindows1763683700000
  AddCallerRequestId1763683750000 AddSessionLimit1763683800000 WidenCredentialChanges1763683900000
  SealAuditEvents1763684000000 AddAuditDefiners1763684050000 RecordSessionChanges1763684200000
  CreateIdempotencyKeys1763684250000 CreateSigningKeys1763684300000 OwnAccounts1763771500000
  CreateOperators1763771600000 CreateLinksByEmail1763771700000 AddSecondFactors1763771800000
  KeepLinksAtRehashes1763771900000 IgnoreRestoredPurges1763772000000 ProtectAuditLogInReplicaMode1763858400000
  MarkReportedUses1763858500000 AddMailNetworks1763858600000 IndexLists1763858700000 CreateJobRuns1763945000000
  RestrictKeys1763945100000 CreateConsoleSessions1763945400000 CreateNodeEnrolments1763946000000
  KeepFirstProofs1763947000000 CreateRefusedNodeTargets1763948000000 CreateRefusedAppKeys1763949000000`.split(/\s+/);

/** Only a part of the former migrations has run, so neither their tables nor those of this version are there. */
export class FormerSchemaError extends Error {
  override readonly name = 'FormerSchemaError';
  readonly code = 'FORMER_SCHEMA';

  constructor(count: number) {
    super(
      `The database has ${count} of the ${FORMER_MIGRATIONS.length} migrations of version 0.1.0. ` +
        'Run platform-auth migrate of commit 48b3efd6 first, which adds the others. Nothing was changed.',
    );
  }
}

/**
 * @param applied names of the migrations that the database has
 * @returns whether version 0.1.0 has made the tables
 * @throws {FormerSchemaError} when a version before it has
 */
export function wasMadeByFormerMigrations(applied: readonly string[]): boolean {
  const former = applied.filter((name) => FORMER_MIGRATIONS.includes(name));
  if (former.length > 0 && former.length < FORMER_MIGRATIONS.length) throw new FormerSchemaError(former.length);
  return former.length > 0;
}
