// Generated from the OpenAPI document by `npm run docs:api`. Do not edit.
export interface Api {
  readonly AppCredentialResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly app_id: string;
    readonly caller: string;
    readonly target: string;
    readonly scopes: readonly string[] | null;
    readonly scope_uses: readonly Api['ScopeUseResponse'][];
  };
  readonly ScopeUseResponse: { readonly scope: string; readonly last_used_at: string | null };
  readonly AuditEventResponse: {
    readonly id: string;
    readonly time: string;
    readonly event: string;
    readonly actor: Api['AuditActorResponse'];
    readonly subject: string | null;
    readonly request_id: string | null;
    readonly address: string | null;
    readonly count: number;
    readonly details: { readonly [key: string]: unknown };
  };
  readonly AuditActorResponse: { readonly door: string; readonly id: string | null; readonly name: string | null };
  readonly BackgroundWorkResponse: { readonly items: readonly Api['MeasurementResponse'][] };
  readonly MeasurementResponse: { readonly name: string; readonly seconds: number; readonly is_overdue: boolean };
  readonly NodeEnrolmentResponse: {
    readonly enrolment_id: string;
    readonly state: string;
    readonly household_id: string;
    readonly room: string;
    readonly name: string;
    readonly targets: readonly string[] | null;
    readonly created_at: string;
    readonly expires_at: string;
    readonly used_at: string | null;
    readonly node_id: string | null;
  };
  readonly IdentifiedKeysResponse: {
    readonly items: readonly Api['IdentifiedKeyResponse'][];
    readonly searched: readonly string[];
  };
  readonly IdentifiedKeyResponse: {
    readonly digest: string;
    readonly kind: string;
    readonly id: string | null;
    readonly owner: string;
    readonly live: boolean;
    readonly last_used_at: string | null;
    readonly last_used_for: string | null;
  };
  readonly ExplanationResponse: {
    readonly accepted_now: boolean;
    readonly reasons: readonly Api['ReasonResponse'][];
    readonly previous_key_accepted_until: string | null;
    readonly previous_key_reasons: readonly Api['ReasonResponse'][];
    readonly last_accepted_at: string | null;
    readonly last_accepted_for: string | null;
  };
  readonly ReasonResponse: {
    readonly code: string;
    readonly detail: string;
    readonly since: string | null;
    readonly request_id: string | null;
    readonly actor: string | null;
  };
  readonly IssuedAppCredentialResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly app_id: string;
    readonly caller: string;
    readonly target: string;
    readonly scopes: readonly string[] | null;
    readonly scope_uses: readonly Api['ScopeUseResponse'][];
    readonly app_key: string;
  };
  readonly IssuedEnrolmentResponse: {
    readonly enrolment_id: string;
    readonly state: string;
    readonly household_id: string;
    readonly room: string;
    readonly name: string;
    readonly targets: readonly string[] | null;
    readonly created_at: string;
    readonly expires_at: string;
    readonly used_at: string | null;
    readonly node_id: string | null;
    readonly code: string;
  };
  readonly IssuedNodeResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly node_id: string;
    readonly household_id: string;
    readonly room: string;
    readonly name: string;
    readonly targets: readonly string[] | null;
    readonly api_key: string;
  };
  readonly IssuedOperatorResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly operator_id: string;
    readonly name: string;
    readonly scopes: readonly string[];
    readonly api_key: string;
  };
  readonly KeyCountsResponse: {
    readonly live: number;
    readonly ended: number;
    readonly unused: number;
    readonly expiring: number;
  };
  readonly NodeResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly node_id: string;
    readonly household_id: string;
    readonly room: string;
    readonly name: string;
    readonly targets: readonly string[] | null;
  };
  readonly OperatorResponse: {
    readonly created_at: string;
    readonly updated_at: string;
    readonly expires_at: string | null;
    readonly revoked_at: string | null;
    readonly rotated_at: string | null;
    readonly previous_key_expires_at: string | null;
    readonly last_used_at: string | null;
    readonly operator_id: string;
    readonly name: string;
    readonly scopes: readonly string[];
  };
  readonly PasswordResetResponse: { readonly token: string; readonly link?: string; readonly expires_at: string };
  readonly Problem: {
    readonly type: string;
    readonly title: string;
    readonly status: number;
    readonly detail: string;
    readonly instance: string;
    readonly code: string;
    readonly request_id: string;
    readonly errors?: readonly Api['FieldError'][];
    readonly valid?: boolean;
    readonly scopes?: readonly string[];
    readonly methods?: readonly string[];
    readonly challenge?: string;
    readonly passkey_options?: { readonly [key: string]: unknown };
  };
  readonly FieldError: { readonly pointer: string; readonly detail: string };
  readonly SessionResponse: {
    readonly id: string;
    readonly created_at: string;
    readonly created_from: string | null;
    readonly user_agent: string | null;
    readonly expires_at: string;
    readonly absolute_expires_at: string;
    readonly rotated_at: string;
    readonly rotated_from: string | null;
    readonly ended_at: string | null;
    readonly end_reason: string | null;
  };
  readonly TargetsOfNodesResponse: { readonly items: readonly Api['RestrictedNodesResponse'][] };
  readonly RestrictedNodesResponse: {
    readonly targets: readonly string[];
    readonly live: number;
    readonly node_id: string;
  };
  readonly UnusedScopesResponse: { readonly items: readonly Api['UnusedScopeResponse'][] };
  readonly UnusedScopeResponse: {
    readonly app_id: string;
    readonly caller: string;
    readonly target: string;
    readonly scope: string;
  };
  readonly UserExplanationResponse: {
    readonly accepted_now: boolean;
    readonly methods: readonly string[];
    readonly second_factors: readonly string[];
    readonly email_verified_at: string | null;
    readonly reasons: readonly Api['LoginReasonResponse'][];
  };
  readonly LoginReasonResponse: { readonly code: string; readonly detail: string; readonly until: string | null };
  readonly AdminUserResponse: {
    readonly id: string;
    readonly email: string;
    readonly is_active: boolean;
    readonly created_at: string;
    readonly updated_at: string;
    readonly email_verified: boolean;
  };
}
