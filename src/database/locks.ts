/** Advisory locks of the whole platform: arbitrary distinct numbers, the same in every process. */
export const LOCKS = {
  migrations: 7_701_001,
  purge: 7_701_002,
  init: 7_701_003,
  auditPartitions: 7_701_004,
  auditSeals: 7_701_005,
  signingKeys: 7_701_006,
  totpSecrets: 7_701_007,
} as const;
