{{/* livetree's settings: from camelCase in values to its own words in a file, secrets to variables. */}}

{{/* A mapping with its keys in snake_case, as JSON. `extra` holds names of Kafka's own. */}}
{{- define "livetree.snake" -}}
{{- $out := dict -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "map" $value) (ne $key "extra") -}}
{{- $_ := set $out (snakecase $key) (include "livetree.snake" $value | fromJson) -}}
{{- else -}}
{{- $_ := set $out (snakecase $key) $value -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end }}

{{/* JSON and not YAML: YAML would write a large number as 1e+06, which is no whole number. */}}
{{- define "livetree.settings" -}}
{{- $own := dict "name" (include "livetree.fullname" .) "logFormat" "json" -}}
{{- if .Values.ray.enabled -}}
{{- $address := printf "%s-head-svc.%s.svc:6379" (include "livetree.ray" .) .Release.Namespace -}}
{{- $ray := dict "address" $address "join" true -}}
{{- $workers := mul .Values.ray.nodes (.Values.ray.workersPerNode) | int -}}
{{- $vht := dict "workers" $workers "ray" $ray -}}
{{- $own = mustMerge $own (dict "variant" "vht" "execution" "ray" "vht" $vht) -}}
{{- end -}}
{{- $all := mustMergeOverwrite $own (deepCopy .Values.settings) -}}
{{- include "livetree.snake" $all | fromJson | toPrettyJson -}}
{{- end }}

{{- define "livetree.port" -}}
{{- dig "http" "port" 8000 .Values.settings | int -}}
{{- end }}

{{- define "livetree.scheme" -}}
{{- if dig "tls" "certificateFile" "" .Values.settings }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{/* Variables of the settings that are secret: `prefix` names the group, `secrets` holds its entries. */}}
{{- define "livetree.secretVariables" -}}
{{- $prefix := .prefix -}}
{{- range $key, $value := .secrets }}
{{- $name := printf "%s%s" $prefix (snakecase $key | upper) }}
{{- if and (hasKey $value "name") (kindIs "string" $value.name) }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $value.name | quote }}
      key: {{ $value.key | quote }}
{{- else }}
{{- include "livetree.secretVariables" (dict "prefix" (printf "%s__" $name) "secrets" $value) }}
{{- end }}
{{- end }}
{{- end }}
