"""For every alert: series under which it fires, and series under which it must not.

The values are promtool's notation, one a minute: `0+5x20` is 0, 5, 10, ... 100, and `1x10` is 1
eleven times. Time begins at 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """What is given, when to look, and the labels that the alert then has."""

    fires: dict[str, str]
    quiet: tuple[dict[str, str], ...]
    at: str
    labels: dict[str, str] = field(default_factory=lambda: {"instance": "a"})


LAG = 'livetree_consumer_lag_records{instance="a", topic="t", partition="0"}'
CONSUMED = 'livetree_events_consumed_total{instance="a", topic="t"}'
LEARNED = 'livetree_events_learned_total{instance="a", model="m"}'
CONNECTED = 'livetree_source_connected{instance="a", topic="t"}'
BEHIND = 'livetree_consumer_lag_seconds{instance="a"}'
REJECTED = 'livetree_events_rejected_total{instance="a", reason="not_json"}'
RESETS = 'livetree_offset_resets_total{instance="a", topic="t"}'
STARTED = 'process_start_time_seconds{instance="a"}'
KEPT = 'livetree_checkpoint_last_success_timestamp_seconds{instance="a"}'
WRITTEN = 'livetree_checkpoints_total{instance="a", outcome="written"}'
FAILED = 'livetree_checkpoints_total{instance="a", outcome="failed"}'
UNREADABLE = 'livetree_checkpoints_total{instance="a", outcome="unreadable"}'
SNAPSHOT = 'livetree_snapshot_age_seconds{instance="a"}'
REPLICA_AGE = 'livetree_snapshot_age_seconds{instance="b"}'
RECEIVED = 'livetree_snapshots_received_total{instance="b"}'
ACCURACY = 'livetree_prequential_accuracy_ratio{instance="a", model="m", window="1000"}'
TOO_MANY = 'livetree_values_ignored_total{instance="a", model="m", reason="too_many"}'
INFINITE = 'livetree_values_ignored_total{instance="a", model="m", reason="infinite"}'
ANSWERED = 'http_requests_total{instance="a", method="POST", route="/predict", code="200"}'
BROKEN = 'http_requests_total{instance="a", method="POST", route="/predict", code="500"}'
UNREADY = 'http_requests_total{instance="a", method="GET", route="/readyz", code="503"}'
BUILD = 'livetree_build_info{instance="a", model="m", variant="vfdt", version="1"}'

CASES = {
    "LivetreeDown": Case({'up{job="other"}': "1x20"}, ({BUILD: "1x20"},), "6m", {}),
    "LivetreeLearnerDown": Case({BUILD: "1x20"}, ({BUILD: "1x20", LEARNED: "5x20"},), "6m", {}),
    "LivetreeLearnerStalled": Case(
        {LAG: "5x20", CONSUMED: "100x20"},
        ({LAG: "5x20", CONSUMED: "0+100x20"}, {LAG: "0x20", CONSUMED: "100x20"}),
        "12m",
    ),
    "LivetreeSourceDisconnected": Case(
        {CONNECTED: "0x20"},
        ({CONNECTED: "1x20"}, {CONNECTED: "0 0 0 1 0 0 0 1 0 0 0 1"}),
        "10m",
        {"instance": "a", "topic": "t"},
    ),
    "LivetreeLagGrowing": Case(
        {BEHIND: "301+10x40"}, ({BEHIND: "1000-10x40"}, {BEHIND: "0+5x40"}), "30m"
    ),
    "LivetreeDeadLettersRising": Case(
        {REJECTED: "0+5x30", CONSUMED: "0+100x30"},
        ({REJECTED: "0+1x30", CONSUMED: "0+1000x30"},),
        "20m",
    ),
    "LivetreeOffsetsReset": Case(
        {RESETS: "1x20", STARTED: "0x20"},  # before the first scrape
        (
            {RESETS: "0x20", STARTED: "0x20"},
            {RESETS: "1x20", STARTED: "-7200x20"},
        ),
        "10m",
        {"instance": "a", "topic": "t"},
    ),
    "LivetreeCheckpointOld": Case(
        {KEPT: "1x60", CONSUMED: "0+100x60"},
        (
            {KEPT: "1x60", CONSUMED: "100x60"},  # nothing new: nothing to keep
            {KEPT: "1+60x60", CONSUMED: "0+100x60"},
            {KEPT: "0x60", CONSUMED: "0+100x60"},  # checkpoints may be off
        ),
        "25m",
    ),
    "LivetreeCheckpointFailing": Case(
        {FAILED: "0+1x20", WRITTEN: "5x20"},
        ({FAILED: "1x20", WRITTEN: "0+1x20"},),
        "10m",
        {"instance": "a", "outcome": "failed"},
    ),
    "LivetreeCheckpointUnreadable": Case(
        {UNREADABLE: "1x20", STARTED: "0x20"},
        ({UNREADABLE: "0x20", STARTED: "0x20"}, {UNREADABLE: "1x20", STARTED: "-7200x20"}),
        "7m",
        {"instance": "a", "outcome": "unreadable"},
    ),
    "LivetreeSnapshotOld": Case(
        {SNAPSHOT: "301x20", LEARNED: "0+100x20"},
        ({SNAPSHOT: "5000x20", LEARNED: "100x20"}, {SNAPSHOT: "5x20", LEARNED: "0+100x20"}),
        "12m",
    ),
    "LivetreeReplicaBehind": Case(
        {REPLICA_AGE: "301x20", RECEIVED: "3x20", LEARNED: "0+100x20"},
        (
            {REPLICA_AGE: "301x20", RECEIVED: "3x20", LEARNED: "100x20"},  # nothing new to hear of
            {REPLICA_AGE: "5x20", RECEIVED: "0+3x20", LEARNED: "0+100x20"},
        ),
        "12m",
        {"instance": "b"},
    ),
    "LivetreeAccuracyFell": Case(
        {ACCURACY: "0.9x1440 0.7x40"},
        ({ACCURACY: "0.9x1440 0.85x40"}, {ACCURACY: "0.9x1440 0.7x5 0.9x40"}),
        "24h30m",
        {"instance": "a", "model": "m", "window": "1000"},
    ),
    "LivetreeValuesIgnored": Case(
        {TOO_MANY: "0+1x40"},
        ({TOO_MANY: "5x40", INFINITE: "0+1x40"},),
        "25m",
        {"instance": "a", "model": "m"},
    ),
    "LivetreeApiErrors": Case(
        {BROKEN: "0+2x20", ANSWERED: "0+100x20"},
        (
            {BROKEN: "0+1x20", ANSWERED: "0+1000x20"},
            {UNREADY: "0+6x20", ANSWERED: "0x20"},  # a probe that waits for the first event
        ),
        "12m",
    ),
}
