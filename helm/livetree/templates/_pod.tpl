{{/* What the pods of the learner and of the replicas have in common. Takes root, component, own. */}}

{{- define "livetree.podMetadata" -}}
annotations:
  checksum/settings: {{ include "livetree.settings" .root | sha256sum | trunc 40 }}
  {{- with .own.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
labels:
  {{- include "livetree.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .own.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "livetree.podPlace" -}}
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "livetree.podIdentity" -}}
serviceAccountName: {{ include "livetree.serviceAccountName" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- end }}

{{- define "livetree.shutdownSeconds" -}}
{{- dig "http" "shutdownSeconds" 20 .Values.settings | ceil | int | add 2 -}}
{{- end }}

{{- define "livetree.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end }}

{{- define "livetree.container" -}}
{{- $root := .root -}}
name: livetree
image: {{ include "livetree.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args: ["serve"]
securityContext:
  {{- toYaml $root.Values.securityContext | nindent 2 }}
env:
  - name: LIVETREE_CONFIG_FILE
    value: /etc/livetree/livetree.json
  {{- if $root.Values.api.enabled }}
  - name: LIVETREE_ROLE
    value: {{ .component }}
  {{- end }}
  {{- if and $root.Values.ray.enabled (eq .component "learner") }}
  {{- include "livetree.raySecret" $root | nindent 2 }}
  {{- end }}
  {{- include "livetree.secretVariables" (dict "prefix" "LIVETREE_" "secrets" $root.Values.secrets) | indent 2 }}
  {{- with $root.Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - name: http
    containerPort: {{ include "livetree.port" $root }}
startupProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "livetree.scheme" $root }}}
  {{- toYaml $root.Values.startupProbe | nindent 2 }}
livenessProbe:
  httpGet: {path: /livez, port: http, scheme: {{ include "livetree.scheme" $root }}}
  {{- toYaml $root.Values.livenessProbe | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ include "livetree.scheme" $root }}}
  {{- toYaml $root.Values.readinessProbe | nindent 2 }}
resources:
  {{- toYaml .own.resources | nindent 2 }}
volumeMounts:
  - {name: settings, mountPath: /etc/livetree, readOnly: true}
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
  {{- if and $root.Values.ray.enabled (eq .component "learner") }}
  - {name: shared, mountPath: /dev/shm}
  {{- end }}
  {{- with $root.Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "livetree.volumes" -}}
- name: settings
  configMap:
    name: {{ include "livetree.fullname" . }}
- name: tmp
  emptyDir: {}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
