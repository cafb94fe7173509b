{{/* Names, labels, and where the connection strings are. */}}

{{- define "platform-auth.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- end -}}

{{- define "platform-auth.cluster" -}}
{{ include "platform-auth.name" . }}-database
{{- end -}}

{{- define "platform-auth.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{ .name | default (ternary (include "platform-auth.name" $) "default" .create) }}
{{- end -}}
{{- end -}}

{{/* The name is fixed, because the alerts expect the job platform-auth. */}}
{{- define "platform-auth.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "platform-auth.labels" -}}
{{ include "platform-auth.selector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | trimSuffix "." | trimSuffix "-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Other labels than the service's, so that its Services and its NetworkPolicy do not select this pod. */}}
{{- define "platform-auth.testLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "platform-auth.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* The Secret that the operator makes for the owner of the database has the connection string as uri. */}}
{{- define "platform-auth.connection" -}}
{{- $own := .given.existingSecret -}}
{{- $operators := and (not $own) .root.Values.postgresCluster.enabled -}}
secretName: {{ $own | default (printf "%s-app" (include "platform-auth.cluster" .root)) }}
items:
  - { key: {{ .given.key | default (ternary "uri" "DATABASE_URL" $operators) }}, path: DATABASE_URL }
{{- end -}}

{{- define "platform-auth.caSecret" -}}
{{- if .Values.database.caSecret -}}
{{- .Values.database.caSecret -}}
{{- else if .Values.postgresCluster.enabled -}}
{{ include "platform-auth.cluster" . }}-ca
{{- end -}}
{{- end -}}

{{/* The keys of secrets.existingSecret that pods get as files: those that are not literals. */}}
{{- define "platform-auth.fileKeys" -}}
{{- $keys := list -}}
{{- range .Values.secrets.keys }}{{ if not (hasKey $.Values.config .) }}{{ $keys = append $keys . }}{{ end }}{{ end -}}
{{- toJson $keys -}}
{{- end -}}
