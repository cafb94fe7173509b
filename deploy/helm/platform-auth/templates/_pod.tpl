{{/* What the pods of the service and of the migration share: the restricted Pod Security Standard, and files of secrets. */}}

{{- define "platform-auth.podSecurity" -}}
serviceAccountName: {{ include "platform-auth.serviceAccount" . }}
automountServiceAccountToken: false
# A Service would otherwise add variables that may be taken for those of the service.
enableServiceLinks: false
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "platform-auth.containerSecurity" -}}
image: {{ include "platform-auth.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- end -}}

{{/* The Job has a connection string of its own, which is never a literal. */}}
{{- define "platform-auth.databaseEnv" -}}
{{- if not .hasLiteral }}
- { name: DATABASE_URL_FILE, value: /etc/platform-auth/database/DATABASE_URL }
{{- end }}
{{- if include "platform-auth.caSecret" .root }}
# Used where the connection string has no sslmode.
- { name: PGSSLMODE, value: verify-full }
- { name: NODE_EXTRA_CA_CERTS, value: /etc/platform-auth/database-ca/ca.crt }
{{- end }}
{{- end -}}

{{- define "platform-auth.databaseMounts" -}}
{{- if not .hasLiteral }}
- { name: database, mountPath: /etc/platform-auth/database, readOnly: true }
{{- end }}
{{- if include "platform-auth.caSecret" .root }}
- { name: database-ca, mountPath: /etc/platform-auth/database-ca, readOnly: true }
{{- end }}
{{- end -}}

{{- define "platform-auth.databaseVolumes" -}}
{{- if not .hasLiteral }}
- name: database
  secret:
    {{- include "platform-auth.connection" . | nindent 4 }}
    defaultMode: 0440
{{- end }}
{{- with include "platform-auth.caSecret" .root }}
- name: database-ca
  secret:
    secretName: {{ . }}
    # The key of the authority stays in the Secret.
    items:
      - { key: ca.crt, path: ca.crt }
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "platform-auth.serviceMounts" -}}
{{- include "platform-auth.databaseMounts" (dict "root" . "hasLiteral" (hasKey .Values.config "DATABASE_URL")) }}
{{- if include "platform-auth.fileKeys" . | fromJsonArray }}
- { name: secrets, mountPath: /etc/platform-auth/secrets, readOnly: true }
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "platform-auth.serviceVolumes" -}}
{{- include "platform-auth.databaseVolumes" (dict "root" . "given" .Values.database "hasLiteral" (hasKey .Values.config "DATABASE_URL")) }}
{{- with include "platform-auth.fileKeys" . | fromJsonArray }}
- name: secrets
  secret:
    secretName: {{ $.Values.secrets.existingSecret }}
    items:
      {{- range . }}
      - { key: {{ . }}, path: {{ . }} }
      {{- end }}
    defaultMode: 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
