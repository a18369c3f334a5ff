{{- define "sandpiper.name" -}}
{{- if contains "sandpiper" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sandpiper" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sandpiper.selector" -}}
app.kubernetes.io/name: sandpiper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sandpiper.labels" -}}
{{ include "sandpiper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "sandpiper.sandboxNamespace" -}}
{{- .Values.sandboxes.namespace | default (printf "%s-sandboxes" .Release.Namespace) -}}
{{- end -}}

{{- define "sandpiper.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{- .Values.publicUrl -}}
{{- else if .Values.ingress.enabled -}}
{{- ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host -}}
{{- else -}}
http://{{ include "sandpiper.name" . }}.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}
{{- end -}}
{{- end -}}

{{/* A server's pod has the rights of the pod security standard `restricted`. */}}
{{- define "sandpiper.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "sandpiper.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "sandpiper.image" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* What a server and the migration need to open the database. */}}
{{- define "sandpiper.storeVariables" -}}
- { name: HOME, value: /data }
- { name: SANDPIPER_DATA, value: /data/sandpiper }
- { name: SANDPIPER_DATABASE_URL_FILE, value: /etc/sandpiper/secrets/database }
- { name: SANDPIPER_VAULT_KEY_FILE, value: /etc/sandpiper/secrets/vault-key }
{{- end -}}

{{- define "sandpiper.storeMounts" -}}
- { name: data, mountPath: /data }
- { name: tmp, mountPath: /tmp }
- { name: secrets, mountPath: /etc/sandpiper/secrets, readOnly: true }
{{- end -}}

{{- define "sandpiper.storeVolumes" -}}
- name: data
  emptyDir: { sizeLimit: {{ .Values.dataSize }} }
- name: tmp
  emptyDir: { sizeLimit: 1Gi }
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      - secret:
          name: {{ .Values.database.secret }}
          items: [{ key: {{ .Values.database.key }}, path: database }]
      - secret:
          name: {{ .Values.vaultKey.secret }}
          items: [{ key: {{ .Values.vaultKey.key }}, path: vault-key }]
      {{- with .Values.blobs.credentialsSecret }}
      - secret:
          name: {{ . }}
          items: [{ key: {{ $.Values.blobs.credentialsKey }}, path: blobs }]
      {{- end }}
{{- end -}}
