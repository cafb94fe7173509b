/** The names of all security events (ASVS 16.3). They are stable: alerts are written against them. */
export type SecurityEvent =
  | 'user.registered'
  | 'user.login.succeeded'
  | 'user.login.failed'
  | 'user.login.throttled'
  | 'user.login.challenged'
  | 'user.second_factor.failed'
  | 'user.second_factor.throttled'
  | 'user.totp.enrolled'
  | 'user.totp.removed'
  | 'user.recovery_codes.replaced'
  | 'user.recovery_code.used'
  | 'user.passkey.added'
  | 'user.passkey.renamed'
  | 'user.passkey.removed'
  | 'user.registration.throttled'
  | 'session.refresh.throttled'
  | 'user.password.changed'
  | 'user.password.refused'
  | 'user.deleted'
  | 'user.token.refused'
  | 'session.refreshed'
  | 'session.refresh.refused'
  | 'session.refresh.reused'
  | 'session.refresh.repeated_elsewhere'
  | 'session.ended'
  | 'signing_key.retired'
  | 'signing_key.revoked'
  | 'app.validation.failed'
  | 'app.first_used'
  | 'node.validation.failed'
  | 'node.first_used'
  | 'admin.key.refused'
  | 'admin.key.throttled'
  | 'admin.node.registered'
  | 'admin.node.updated'
  | 'admin.node.rotated'
  | 'admin.node.revoked'
  | 'admin.app_credential.minted'
  | 'admin.app_credential.rotated'
  | 'admin.app_credential.revoked'
  | 'admin.user.created'
  | 'admin.user.updated'
  | 'admin.user.deleted'
  | 'admin.user.sessions_revoked'
  | 'admin.user.factors_removed';

/** These are logged at level warn, and so at LOG_LEVEL=warn too. */
const WARNINGS = /\.(failed|refused|reused|repeated_elsewhere|throttled)$/;

export function isWarning(event: SecurityEvent): boolean {
  return WARNINGS.test(event);
}
