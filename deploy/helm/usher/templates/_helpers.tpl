{{/* The name of every object: the release, or the release and "usher". */}}
{{- define "usher.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains "usher" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-usher" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that pods are selected by; they must not change between versions. */}}
{{- define "usher.selector" -}}
app.kubernetes.io/name: usher
app.kubernetes.io/instance: {{ include "usher.name" . }}
{{- end -}}

{{- define "usher.labels" -}}
{{ include "usher.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "usher.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "usher.name" .) -}}
{{- end -}}

{{- define "usher.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The Secret that replicas share their certificate through. */}}
{{- define "usher.certSecret" -}}
{{- .Values.certificate.existingSecret | default (printf "%s-cert" (include "usher.name" .)) -}}
{{- end -}}

{{/* The Secret with the keys of the URL paths that replicas register. */}}
{{- define "usher.pathSecret" -}}
{{- .Values.webhookConfiguration.pathSecret | default (printf "%s-paths" (include "usher.name" .)) -}}
{{- end -}}

{{/* The Secret with the keys of policy proofs. */}}
{{- define "usher.proofSecret" -}}
{{- .Values.proofs.secret | default (printf "%s-proofs" (include "usher.name" .)) -}}
{{- end -}}

{{/* Whether results of the audit are written as reports. */}}
{{- define "usher.reports" -}}
{{- if and .Values.audit.enabled .Values.reports.enabled -}}true{{- end -}}
{{- end -}}

{{/* What to do with the admission policies of the cluster. YAML reads off as false. */}}
{{- define "usher.admissionPolicies" -}}
{{- .Values.admissionPolicies | default "off" -}}
{{- end -}}

{{/* Containers get no privileges that evaluating policies does not need. */}}
{{- define "usher.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "usher.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The file of --tracing-config-file. */}}
{{- define "usher.tracing" -}}
apiVersion: apiserver.config.k8s.io/v1
kind: TracingConfiguration
{{- with .Values.tracing.endpoint }}
endpoint: {{ . | quote }}
{{- end }}
samplingRatePerMillion: {{ int .Values.tracing.samplingRatePerMillion }}
{{- end }}
