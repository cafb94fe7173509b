{{/* Stops the rendering when values do not fit together, or are insecure and not named in `insecure`. */}}
{{- define "platform-auth.checks" -}}
{{- $problems := list -}}
{{- $secrets := list "SECRET_KEY" "SECRET_KEY_PREVIOUS" "MASTER_KEY" "MASTER_KEY_PREVIOUS" "ADMIN_API_KEY" "AUDIT_SEAL_KEY" "DATABASE_URL" "MAIL_URL" "LOGGING_APP_KEY" -}}
{{- with .Values -}}
{{- $isOpen := or .ingress.enabled .httpRoute.enabled (ne .service.type "ClusterIP") -}}

{{- if not .image.repository }}{{ $problems = append $problems "image.repository is required" }}{{ end -}}
{{- if gt (len (include "platform-auth.name" $)) 40 }}{{ $problems = append $problems "fullnameOverride is required: the name made from the release has more than 40 characters" }}{{ end -}}

{{- $literals := dict -}}
{{- range $name, $value := .config }}{{ if has $name $secrets }}{{ $_ := set $literals (printf "config.%s" $name) $value }}{{ end }}{{ end -}}
{{- range .extraEnv }}{{ if and (has .name $secrets) (not .valueFrom) }}{{ $_ := set $literals (printf "extraEnv.%s" .name) .value }}{{ end }}{{ end -}}
{{- range $name, $value := $literals -}}
{{- if not (has "secrets-as-literals" $.Values.insecure) }}{{ $problems = append $problems (printf "%s is a secret: put it into the Secret that secrets.existingSecret or database.existingSecret names (or name secrets-as-literals in insecure)" $name) }}{{ end -}}
{{- if not $value }}{{ $problems = append $problems (printf "%s is empty" $name) }}{{ end -}}
{{- if and (hasSuffix "DATABASE_URL" $name) (not (regexMatch "^postgres(ql)?://[^/@]*:[^/@]+@|[?&]password=[^&]" (toString $value))) (not (has "empty-database-password" $.Values.insecure)) }}{{ $problems = append $problems (printf "%s has no password (or name empty-database-password in insecure)" $name) }}{{ end -}}
{{- end -}}

{{- $set := concat (list "NODE_ENV" "WORKERS" "PORT" "INTERNAL_PORT" "METRICS_PORT" "CONSOLE" "DATABASE_URL" "DATABASE_URL_FILE") (keys .config) .secrets.keys -}}
{{- range .secrets.keys }}{{ $set = append $set (printf "%s_FILE" .) }}{{ end -}}
{{- if include "platform-auth.caSecret" $ }}{{ $set = concat $set (list "PGSSLMODE" "NODE_EXTRA_CA_CERTS") }}{{ end -}}
{{- range .extraEnv -}}
{{- if has .name $set }}{{ $problems = append $problems (printf "extraEnv.%s is set by the chart already, or stands twice" .name) }}{{ end -}}
{{- $set = append $set .name -}}
{{- end -}}

{{- if and (not .secrets.existingSecret) (include "platform-auth.fileKeys" $ | fromJsonArray) }}{{ $problems = append $problems "secrets.existingSecret is required: the name of the Secret with the keys of secrets.keys" }}{{ end -}}
{{- if not (or .database.existingSecret .postgresCluster.enabled (hasKey $literals "config.DATABASE_URL")) }}{{ $problems = append $problems "database.existingSecret is required: the name of the Secret with DATABASE_URL" }}{{ end -}}
{{- if eq .migration.mode "job" -}}
{{- if not (or .migration.existingSecret .postgresCluster.enabled) }}{{ $problems = append $problems "migration.existingSecret is required: the name of the Secret with the connection string of the owner" }}{{ end -}}
{{- if and .postgresCluster.enabled (not .database.existingSecret) }}{{ $problems = append $problems (printf "database.existingSecret is required: the name of the Secret with username (%s), password and DATABASE_URL" .migration.grantTo) }}{{ end -}}
{{- end -}}

{{- if and $isOpen (not .ports.internal) (not (has "internal-routes-on-ingress" .insecure)) }}{{ $problems = append $problems "ports.internal is 0, so the public port serves /internal and the admin routes too, and an Ingress, HTTPRoute or service.type leads to it (or name internal-routes-on-ingress in insecure)" }}{{ end -}}
{{- if and (or .ingress.enabled .httpRoute.enabled) (not (hasKey .config "TRUST_PROXY")) }}{{ $problems = append $problems "config.TRUST_PROXY is required with an Ingress or HTTPRoute: otherwise the throttles count all clients as one" }}{{ end -}}
{{- if .ingress.enabled -}}
{{- if not .ingress.hosts }}{{ $problems = append $problems "ingress.hosts is required" }}{{ end -}}
{{- if not (or .ingress.tlsSecret (has "ingress-without-tls" .insecure)) }}{{ $problems = append $problems "ingress.tlsSecret is required (or name ingress-without-tls in insecure)" }}{{ end -}}
{{- end -}}
{{- if and .httpRoute.enabled (not .httpRoute.parentRefs) }}{{ $problems = append $problems "httpRoute.parentRefs is required" }}{{ end -}}
{{- if and .console (not .ports.internal) }}{{ $problems = append $problems "console needs ports.internal" }}{{ end -}}

{{- if and .serviceMonitor.enabled (not .ports.metrics) }}{{ $problems = append $problems "serviceMonitor.enabled needs ports.metrics" }}{{ end -}}
{{- if and .autoscaling.enabled (gt (int .autoscaling.minReplicas) (int .autoscaling.maxReplicas)) }}{{ $problems = append $problems "autoscaling.minReplicas is above autoscaling.maxReplicas" }}{{ end -}}
{{- if and .networkPolicy.enabled .config.LOGGING_SERVICE_URL (not .networkPolicy.extraEgress) }}{{ $problems = append $problems "networkPolicy.extraEgress must allow config.LOGGING_SERVICE_URL" }}{{ end -}}
{{- /* --set gives a number of another type than a file of values. */}}
{{- $ports := list (int .ports.public) (int .ports.internal) (int .ports.metrics) | compact -}}
{{- if ne (len $ports) (len (uniq $ports)) }}{{ $problems = append $problems "ports must differ" }}{{ end -}}
{{- end -}}

{{- if $problems }}{{ fail (printf "\n  - %s" (join "\n  - " $problems)) }}{{ end -}}
{{- end -}}
