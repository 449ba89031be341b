{{/* The Ray cluster of the workers: its name, its secret, and a pod of it (root, role, resources). */}}

{{- define "livetree.ray" -}}
{{- printf "%s-ray" (include "livetree.fullname" . | trunc 40 | trimSuffix "-") -}}
{{- end }}

{{/* KubeRay makes a secret of the cluster's name and hands it to the cluster's own pods. */}}
{{- define "livetree.raySecret" -}}
- name: RAY_AUTH_MODE
  value: token
- name: RAY_AUTH_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ include "livetree.ray" . }}
      key: auth_token
{{- end }}

{{- define "livetree.rayPod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "livetree.labels" $root | nindent 4 }}
    app.kubernetes.io/component: ray-{{ .role }}
spec:
  {{- include "livetree.podIdentity" $root | nindent 2 }}
  {{- with $root.Values.ray.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.ray.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: ray-{{ .role }}
      image: {{ include "livetree.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      securityContext:
        {{- toYaml $root.Values.securityContext | nindent 8 }}
      env:
        - {name: RAY_USAGE_STATS_ENABLED, value: "0"}
        - {name: RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE, value: "1"}
      {{- if eq .role "head" }}
      ports:
        - {name: gcs-server, containerPort: 6379}
      {{- end }}
      readinessProbe:
        exec: {command: ["test", "-S", "/tmp/ray/session_latest/sockets/raylet"]}
        {{- toYaml $root.Values.readinessProbe | nindent 8 }}
      livenessProbe:
        exec: {command: ["test", "-S", "/tmp/ray/session_latest/sockets/raylet"]}
        initialDelaySeconds: 120
        {{- toYaml $root.Values.livenessProbe | nindent 8 }}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shared, mountPath: /dev/shm}
  volumes:
    - name: tmp
      emptyDir: {}
    - name: shared
      emptyDir: {medium: Memory, sizeLimit: {{ $root.Values.ray.objectStoreSize | quote }}}
{{- end }}
