/** One problem and its remedy. Contains no secret. */
export interface PlatformFinding {
  /** broken: a call is refused or a secret is exposed now. warning: everything works now, but will fail later. */
  readonly severity: 'broken' | 'warning';
  readonly where: string;
  readonly what: string;
  readonly do: string;
}

const createFindings =
  (severity: PlatformFinding['severity']) =>
  (where: string, what: string, remedy: string): PlatformFinding => ({ severity, where, what, do: remedy });
export const broken = createFindings('broken');
export const warning = createFindings('warning');
