"""The Grafana dashboard as a table of questions; `make docs` writes it into the chart.

Metrics that carry no label `model` are matched to the chosen models through the process they
come from: `livetree_build_info` has one series a process, with the model's name.
"""

from __future__ import annotations

import json
from typing import Any

from docs.grafana import (
    GREEN,
    ORANGE,
    RED,
    Panel,
    Query,
    annotation,
    board,
    label_variable,
    source_variable,
)

RATE = "$__rate_interval"
MODEL = 'model=~"$model"'
CHOSEN = f"and on (job, instance) livetree_build_info{{{MODEL}}}"
# Only replicas count what they refuse, from their start.
FOLLOWS = "and on (job, instance) livetree_snapshots_refused_total"
WHO = "{{instance}} {{worker}}"
# 503 is a probe's way to say "not yet".
PROBES = 'route!~"/livez|/healthz|/readyz|/v2/.*(live|ready)"'
RECENT, OVERALL = 'window!="all"', 'window="all"'
LEAVES = 'kind=~".*leaf"'


def stat(title: str, about: str, expression: str, unit: str = "short", **more: Any) -> Panel:
    """One number, in the line above all rows."""
    return Panel(title, about, (Query(expression),), unit, width=4, stat=True, **more)


def process(metric: str, *labels: str) -> str:
    """A gauge without a label `model`, of the chosen models' processes."""
    selector = f"{{{', '.join(labels)}}}" if labels else ""
    return f"({metric}{selector} {CHOSEN})"


def replica(metric: str) -> str:
    """A gauge of the replicas of the chosen models."""
    return f"({metric} {CHOSEN} {FOLLOWS})"


def process_rate(metric: str, *labels: str) -> str:
    """The growth a second of such a counter."""
    selector = f"{{{', '.join(labels)}}}" if labels else ""
    return f"(rate({metric}{selector}[{RATE}]) {CHOSEN})"


def rate(metric: str, *labels: str) -> str:
    """The growth a second of a counter of the chosen models."""
    return f"rate({metric}{{{', '.join((MODEL, *labels))}}}[{RATE}])"


def quantiles(buckets: str, by: str = "") -> tuple[Query, ...]:
    """The median and the slowest of a hundred."""
    named = f" {{{{{by}}}}}" if by else ""
    grouped = f"le, {by}" if by else "le"
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by ({grouped}) ({buckets}))",
            f"p{share * 100:g}{named}",
        )
        for share in (0.5, 0.99)
    )


def slowest(title: str, metric: str) -> Query:
    """The slowest of a hundred, of all chosen processes."""
    return Query(
        f"histogram_quantile(0.99, sum by (le) ({process_rate(f'{metric}_bucket')}))",
        f"{title}, p99",
    )


def gauge(metric: str, *labels: str) -> str:
    """A gauge of the chosen models."""
    return f"{metric}{{{', '.join((MODEL, *labels))}}}"


OVERVIEW = (
    stat(
        "Accuracy of late",
        "Share of the last events (evaluation.window) predicted right before they were learned.",
        f"min({gauge('livetree_prequential_accuracy_ratio', RECENT)})",
        "percentunit",
        decimals=1,
        bounds=(0, 1),
    ),
    stat(
        "Events learned a second",
        "All chosen models together.",
        f"sum({rate('livetree_events_learned_total')})",
        "eps",
    ),
    stat(
        "Behind the topic",
        "Age of the last consumed record while others wait.",
        f"max({process('livetree_consumer_lag_seconds')})",
        "s",
        limits=((60, ORANGE), (300, RED)),
    ),
    stat(
        "Snapshot age",
        "How old the oldest snapshot is that answers predictions.",
        f"max({process('livetree_snapshot_age_seconds')})",
        "s",
        limits=((60, ORANGE), (300, RED)),
    ),
    stat(
        "Source",
        "Whether the broker answers and the topic is there.",
        f"min({process('livetree_source_connected')})",
        limits=((1, GREEN),),
        words={"0": "away", "1": "connected"},
    ),
    stat(
        "Leaves",
        "All chosen models together.",
        f"sum({gauge('livetree_tree_nodes', LEAVES)})",
    ),
)

LEARNING = (
    Panel(
        "Accuracy",
        "Prequential: every event is predicted before it is learned.",
        (
            Query(
                gauge("livetree_prequential_accuracy_ratio", RECENT),
                "{{model}}: last {{window}} events",
            ),
            Query(
                gauge("livetree_prequential_accuracy_ratio", OVERALL),
                "{{model}}: all events",
            ),
        ),
        "percentunit",
        bounds=(None, 1),
    ),
    Panel(
        "Kappa",
        "Agreement beyond chance: 0 is what guessing by frequency gives, 1 is never wrong.",
        (
            Query(
                gauge("livetree_prequential_kappa_ratio", RECENT),
                "{{model}}: last {{window}} events",
            ),
            Query(gauge("livetree_prequential_kappa_ratio", OVERALL), "{{model}}: all events"),
        ),
        "percentunit",
        bounds=(None, 1),
    ),
    Panel(
        "Changes of the tree, a minute",
        "Splits by the bound and by the tie rule; others where a variant revises itself.",
        (
            Query(
                f"60 * sum by (kind) ({rate('livetree_splits_total')})",
                "{{kind}}",
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Attempts to split, a second",
        "By outcome. Attempts without a split are the price of splitting early.",
        (Query(f"sum by (outcome) ({rate('livetree_split_attempts_total')})", "{{outcome}}"),),
        "cps",
        stacked=True,
    ),
    Panel(
        "Work on splits, an event",
        "Merits computed, checks of candidates, looks at made splits, by events learned.",
        tuple(
            Query(
                f"sum({rate(f'livetree_{metric}_total')})"
                f" / sum({rate('livetree_events_learned_total')})",
                legend,
            )
            for metric, legend in (
                ("attribute_evaluations", "merits"),
                ("candidate_checks", "checks"),
                ("reevaluations", "re-evaluations"),
            )
        ),
    ),
    Panel(
        "Split delay, events",
        "Wait of leaves whose test would have passed; needs tree.audit_fraction above 0.",
        (
            *quantiles(f"increase(livetree_split_delay_events_bucket{{{MODEL}}}[$__range])"),
            Query(f"sum({gauge('livetree_late_leaves')})", "leaves waiting now"),
        ),
    ),
)

STREAM = (
    Panel(
        "Events a second",
        "Taken from the source, learned, and set aside.",
        (
            Query(f"sum({process_rate('livetree_events_consumed_total')})", "consumed"),
            Query(f"sum({rate('livetree_events_learned_total')})", "learned"),
            Query(f"sum({process_rate('livetree_events_rejected_total')})", "rejected"),
        ),
        "eps",
    ),
    Panel(
        "Lag, records",
        "Records in the topic that are not consumed yet, by partition.",
        (
            Query(
                f"sum by (topic, partition) ({process('livetree_consumer_lag_records')})",
                "{{topic}} {{partition}}",
            ),
        ),
    ),
    Panel(
        "From the event to the tree",
        "Time from the event's own time, or the broker's, until it is learned.",
        quantiles(process_rate("livetree_event_to_learned_seconds_bucket")),
        "s",
    ),
    Panel(
        "Dead letters a second",
        "Records that cannot be learned, by reason; `livetree dlq list` shows them.",
        (
            Query(
                f"sum by (reason) ({process_rate('livetree_dead_letters_total')}) > 0"
                f" or sum({process_rate('livetree_dead_letters_total')})",
                "{{reason}}",
            ),
        ),
        "cps",
    ),
    Panel(
        "Age of the checkpoint",
        "What a restart would learn again. Flat at zero: none written yet.",
        (
            Query(
                "time() - "
                + process("livetree_checkpoint_last_success_timestamp_seconds")
                + " < 1e9",
                "{{instance}}",
            ),
        ),
        "s",
    ),
    Panel(
        "Checkpoints",
        "Time to write one, and how long learning stood still for it.",
        (
            slowest("written in", "livetree_checkpoint_duration_seconds"),
            slowest("learning paused", "livetree_checkpoint_pause_seconds"),
        ),
        "s",
    ),
)

SERVING = (
    Panel(
        "Requests a second",
        "By route and status.",
        (
            Query(
                f"sum by (method, route, code) ({process_rate('http_requests_total')})",
                "{{method}} {{route}} {{code}}",
            ),
        ),
        "reqps",
        stacked=True,
    ),
    Panel(
        "Latency of POST /predict",
        "Measured inside the process, the answer included.",
        quantiles(process_rate("http_request_duration_seconds_bucket", 'route="/predict"')),
        "s",
    ),
    Panel(
        "Requests that fail",
        "Share of answers with a status of 500 and above, and of those from 400 on; no probes.",
        tuple(
            Query(
                f"(sum({process_rate('http_requests_total', PROBES, codes)}) or vector(0))"
                f" / sum({process_rate('http_requests_total', PROBES)})",
                legend,
            )
            for codes, legend in (('code=~"5.."', "5xx"), ('code=~"4.."', "4xx"))
        ),
        "percentunit",
    ),
    Panel(
        "Predictions a second",
        "Rows predicted for clients, by outcome; a request may have many.",
        (Query(f"sum by (outcome) ({rate('livetree_predictions_total')})", "{{outcome}}"),),
        "cps",
        width=12,
    ),
    Panel(
        "Requests in progress, keys refused",
        "Requests being answered now, and those refused a second for a missing or wrong key.",
        (
            Query(f"sum({process('http_requests_in_progress')})", "in progress"),
            Query(f"sum({process_rate('http_unauthorized_total')})", "refused a second"),
        ),
        width=12,
    ),
)

REPLICAS = (
    Panel(
        "Events behind",
        "How many events fewer than the newest snapshot the one that answers has learned.",
        (
            Query(
                f"max by (model) ({gauge('livetree_snapshot_events')})"
                f" - on (model) group_right () {gauge('livetree_snapshot_events')}",
                WHO,
            ),
        ),
    ),
    Panel(
        "Age of the snapshot that answers",
        "By process. It grows while the learner is away, and while it has nothing to learn.",
        (Query(process("livetree_snapshot_age_seconds"), WHO),),
        "s",
    ),
    Panel(
        "From the learner to the answer",
        "From a snapshot's publication, by the learner's clock, to the first answer from it.",
        quantiles(process_rate("livetree_snapshot_delivery_seconds_bucket")),
        "s",
    ),
    Panel(
        "Snapshots a second",
        "Sent by the learner, or not, and answered from by each replica; some may be passed over.",
        (
            Query(
                f"sum by (outlet, outcome) ({process_rate('livetree_snapshots_sent_total')})",
                "{{outcome}} ({{outlet}})",
            ),
            Query(
                f"rate(livetree_snapshots_received_total[{RATE}]) {CHOSEN} {FOLLOWS}",
                f"taken by {WHO}",
            ),
        ),
        "cps",
    ),
    Panel(
        "Snapshots refused a minute, source away",
        "The one before stays. foreign_snapshot is another model's, normal on a shared topic.",
        (
            Query(
                f"60 * sum by (reason) ({process_rate('livetree_snapshots_refused_total')})",
                "{{reason}}",
            ),
            Query(
                f"count({replica('livetree_snapshot_source_connected')} == 0) or vector(0)",
                "replicas whose source is away",
            ),
        ),
    ),
    Panel(
        "Time for a snapshot",
        "Until it was with all outlets; to check it and to switch to it.",
        (
            slowest("sent in", "livetree_snapshot_send_duration_seconds"),
            slowest("taken in", "livetree_snapshot_read_duration_seconds"),
        ),
        "s",
    ),
)

SIZE = (
    Panel(
        "Nodes",
        "Inactive leaves keep no statistics and cannot split (tree.max_memory_bytes).",
        (Query(f"sum by (kind) ({gauge('livetree_tree_nodes')})", "{{kind}}"),),
        stacked=True,
    ),
    Panel("Depth", "Of the deepest leaf.", (Query(gauge("livetree_tree_depth"), "{{model}}"),)),
    Panel(
        "Memory",
        "The tree by its own account, its checkpoint, and the whole process.",
        (
            Query(gauge("livetree_model_memory_bytes"), "tree of {{model}}"),
            Query(process("livetree_checkpoint_size_bytes"), "checkpoint {{instance}}"),
            Query(process("process_resident_memory_bytes"), "process {{instance}}"),
        ),
        "bytes",
    ),
    Panel(
        "CPU",
        "Cores in use. One learner uses at most one for learning.",
        (Query(process_rate("process_cpu_seconds_total"), "{{instance}}"),),
        "short",
    ),
    Panel(
        "Publishing a snapshot",
        "Time to take one and hand it to the API.",
        quantiles(process_rate("livetree_snapshot_publish_duration_seconds_bucket")),
        "s",
    ),
    Panel(
        "Values ignored a second",
        "Values that count as missing: infinite, or beyond schema.max_values.",
        (Query(f"sum by (reason) ({rate('livetree_values_ignored_total')})", "{{reason}}"),),
        "cps",
    ),
)

ROWS = {
    "Learning": LEARNING,
    "Stream": STREAM,
    "Serving": SERVING,
    "Replicas": REPLICAS,
    "Model": SIZE,
}

RESTARTS = Query(f"changes(process_start_time_seconds[$__interval]) > 0 {CHOSEN}", "started")
ALERTS = Query('ALERTS{alertname=~"Livetree.+", alertstate="firing"}', "{{alertname}}")


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana stores it."""
    return {
        "uid": "livetree",
        "title": "livetree",
        "description": "A tree that learns from a stream: how it learns, keeps up and answers.",
        "tags": ["livetree"],
        "schemaVersion": 41,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [source_variable(), label_variable("model", "Model", "livetree_build_info")]
        },
        "annotations": {
            "list": [annotation("Restarts", "blue", RESTARTS), annotation("Alerts", "red", ALERTS)]
        },
        "panels": board(OVERVIEW, ROWS),
    }


def dashboard_json() -> str:
    """The file that people import, and that the chart and compose.yaml provide."""
    return json.dumps(dashboard(), indent=2, ensure_ascii=False) + "\n"
