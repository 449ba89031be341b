"""What can go wrong in the service, and what is done about it.

    AppError
    ├── SettingsError            the settings are incomplete or wrong         (exit 2)
    ├── SourceError              the broker or the file refused or went away  (exit 3)
    │   ├── OffsetOutOfRange     the log no longer holds what comes next      (exit 4)
    │   ├── SourceChanged        not the log that the checkpoint was fed from (exit 4)
    │   ├── DeadLetterLost       a rejected record could not be put aside     (exit 3)
    │   ├── RegistryRefused      the schema registry wants other credentials  (exit 3)
    │   └── RegistryUnreachable  the schema registry does not answer          (try again later)
    ├── DecodeError              these bytes are not an event                 (skip the record)
    │   ├── RecordTooLarge
    │   ├── NotText              not UTF-8
    │   ├── NotJson
    │   ├── NotAnObject
    │   ├── BadEnvelope          a CloudEvent that cannot be opened
    │   ├── NotAvro
    │   ├── NotBinary            not a whole number of rows
    │   ├── UnusableSchema       the registry has no such schema, or one we do not read
    │   ├── BadLabel             missing, null or of a wrong type
    │   ├── BadWeight            missing, not a number or not above zero
    │   └── BadFeature           a feature's value is of a wrong type
    ├── CheckpointError          a checkpoint could not be used               (exit 4)
    │   ├── CheckpointUnreadable files are there, none can be read
    │   ├── CheckpointVersion    another version of the program wrote it
    │   ├── CheckpointMismatch   it was made with other settings
    │   ├── CheckpointLocked     another learner works in the same folder
    │   └── CheckpointUnwritable the folder or the disk refuses               (try again later)
    ├── SnapshotRefused          a snapshot that is not answered from         (the one before stays)
    │   ├── SnapshotDamaged      garbage, cut off, or no tree
    │   ├── SnapshotIncomplete   some of its messages are missing
    │   ├── SnapshotFormat       another version of the program wrote it
    │   └── ForeignSnapshot      it is of another model
    ├── SnapshotUnwritable       the topic or the folder refuses a snapshot   (try again later)
    ├── NotServedHere            processes of another role answer this        (HTTP 421)
    ├── NotReady                 no snapshot has been published yet           (HTTP 503)
    ├── UnknownSnapshot          no snapshot that is held is the one meant    (HTTP 404)
    ├── LearnerBusy              the learner does not answer in time          (HTTP 503)
    ├── NotExportable            the tree has no form in the wanted format    (exit 2)
    └── Unexpected               a fault of ours                              (exit 1)

`POLICY` has one row for each of these and for each error of the learner.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import learner


class Action(Enum):
    """What the consumer does: leave the record out and go on, or end the process."""

    SKIP = "skip"
    STOP = "stop"


class Policy(NamedTuple):
    """How one class of error is shown and handled."""

    status: int  # HTTP status, where it reaches a client
    reason: str  # label in metrics, and the last part of a problem's type
    action: Action
    exit_code: int
    title: str


class AppError(Exception):
    """Everything the service raises on purpose."""


class SettingsError(AppError):
    """The settings are incomplete or wrong; ``problems`` lists every fault as one line."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SourceError(AppError):
    """The broker or the file refused or went away."""


class OffsetOutOfRange(SourceError):
    """The log no longer holds the record that the model should learn next."""


class SourceChanged(SourceError):
    """The log is not the one that the checkpoint was fed from."""


class DeadLetterLost(SourceError):
    """A rejected record could not be put aside, so learning must not pass it."""


class RegistryRefused(SourceError):
    """The schema registry does not let us in."""


class RegistryUnreachable(SourceError):
    """The schema registry does not answer, or not as one; ask again after the pause."""

    def __init__(self, message: str, pause_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.pause_seconds = pause_seconds


class DecodeError(AppError):
    """These bytes are not an event; ``field`` names the culprit where it has a name."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class RecordTooLarge(DecodeError):
    """The record is longer than event.max_bytes."""


class NotText(DecodeError):
    """The record is not UTF-8."""


class NotJson(DecodeError):
    """The record is not JSON, or is nested too deeply to be read."""


class NotAnObject(DecodeError):
    """The record, or its features, is JSON but not an object."""


class BadEnvelope(DecodeError):
    """The record says that it is a CloudEvent, and cannot be opened as one."""


class NotAvro(DecodeError):
    """The record is not Avro with a schema's id before it, or does not fit that schema."""


class NotBinary(DecodeError):
    """The record is not one or more whole rows of the declared layout."""


class UnusableSchema(DecodeError):
    """The registry has no schema of the record's id, or one that is not read here."""


class BadLabel(DecodeError):
    """The label is missing, null or of a wrong type."""


class BadWeight(DecodeError):
    """The weight is missing, not a number, not above zero or beyond all measure."""


class BadFeature(DecodeError):
    """A feature's value is of a wrong type."""


class CheckpointError(AppError):
    """A checkpoint could not be used."""


class CheckpointUnreadable(CheckpointError):
    """Checkpoint files are there, but none can be read."""


class CheckpointVersion(CheckpointError):
    """The checkpoint is whole, but of a format that this program does not read."""


class CheckpointMismatch(CheckpointError):
    """The checkpoint was made with settings that shape another tree."""


class CheckpointLocked(CheckpointError):
    """Another learner works in the same folder."""


class CheckpointUnwritable(CheckpointError):
    """The folder or the disk refuses the checkpoint."""


class SnapshotRefused(AppError):
    """A snapshot came that cannot be answered from; the one before stays."""


class SnapshotDamaged(SnapshotRefused):
    """These bytes are no snapshot, were cut off, or hold no tree."""


class SnapshotIncomplete(SnapshotRefused):
    """Some of the messages that a snapshot was cut into are missing."""


class SnapshotFormat(SnapshotRefused):
    """The snapshot is of a format that this program does not read."""


class ForeignSnapshot(SnapshotRefused):
    """The snapshot is of another model."""


class SnapshotUnwritable(AppError):
    """The topic or the folder refuses a snapshot."""


class NotServedHere(AppError):
    """Processes of another role answer this."""


class NotReady(AppError):
    """No snapshot has been published yet."""


class UnknownSnapshot(AppError):
    """No snapshot that is held is the one meant by ``at``."""


class LearnerBusy(AppError):
    """The learner did not answer a question in time, or too many wait already."""


class NotExportable(AppError):
    """The tree cannot be written in the wanted format."""


class Unexpected(AppError):
    """A fault of ours; the log has the whole story."""


SKIP, STOP = Action.SKIP, Action.STOP

POLICY: dict[type[Exception], Policy] = {
    AppError: Policy(500, "internal", STOP, 1, "Internal error"),
    SettingsError: Policy(500, "settings", STOP, 2, "Settings are wrong"),
    SourceError: Policy(503, "source", STOP, 3, "Source failed"),
    OffsetOutOfRange: Policy(503, "offset_out_of_range", STOP, 4, "Offset out of range"),
    SourceChanged: Policy(503, "source_changed", STOP, 4, "Source is another one"),
    DeadLetterLost: Policy(503, "dead_letter_lost", STOP, 3, "Dead letter not delivered"),
    RegistryRefused: Policy(503, "registry_refused", STOP, 3, "Schema registry refused"),
    RegistryUnreachable: Policy(503, "registry_unreachable", STOP, 3, "Schema registry is away"),
    DecodeError: Policy(400, "decode", SKIP, 1, "Not an event"),
    RecordTooLarge: Policy(413, "too_large", SKIP, 1, "Record too large"),
    NotText: Policy(400, "not_utf8", SKIP, 1, "Not UTF-8"),
    NotJson: Policy(400, "not_json", SKIP, 1, "Not JSON"),
    NotAnObject: Policy(400, "not_an_object", SKIP, 1, "Not an object"),
    BadEnvelope: Policy(400, "bad_envelope", SKIP, 1, "Not a CloudEvent"),
    NotAvro: Policy(400, "not_avro", SKIP, 1, "Not Avro"),
    NotBinary: Policy(400, "not_binary", SKIP, 1, "Not whole rows"),
    UnusableSchema: Policy(422, "unusable_schema", SKIP, 1, "Schema cannot be used"),
    BadLabel: Policy(422, "bad_label", SKIP, 1, "Bad label"),
    BadWeight: Policy(422, "bad_weight", SKIP, 1, "Bad weight"),
    BadFeature: Policy(422, "bad_feature", SKIP, 1, "Bad feature"),
    CheckpointError: Policy(503, "checkpoint", STOP, 4, "Checkpoint cannot be used"),
    CheckpointUnreadable: Policy(503, "checkpoint_unreadable", STOP, 4, "Checkpoint unreadable"),
    CheckpointVersion: Policy(503, "checkpoint_version", STOP, 4, "Checkpoint of another version"),
    CheckpointMismatch: Policy(503, "checkpoint_mismatch", STOP, 4, "Checkpoint does not fit"),
    CheckpointLocked: Policy(503, "checkpoint_locked", STOP, 4, "Checkpoint folder in use"),
    CheckpointUnwritable: Policy(503, "checkpoint_unwritable", STOP, 4, "Checkpoint not written"),
    SnapshotRefused: Policy(503, "snapshot_refused", SKIP, 1, "Snapshot refused"),
    SnapshotDamaged: Policy(503, "snapshot_damaged", SKIP, 1, "Snapshot damaged"),
    SnapshotIncomplete: Policy(503, "snapshot_incomplete", SKIP, 1, "Snapshot incomplete"),
    SnapshotFormat: Policy(503, "snapshot_format", SKIP, 1, "Snapshot of another version"),
    ForeignSnapshot: Policy(503, "foreign_snapshot", SKIP, 1, "Snapshot of another model"),
    SnapshotUnwritable: Policy(503, "snapshot_unwritable", SKIP, 1, "Snapshot not sent"),
    NotServedHere: Policy(421, "not_served_here", SKIP, 1, "Not served here"),
    NotReady: Policy(503, "not_ready", SKIP, 1, "Not ready"),
    UnknownSnapshot: Policy(404, "unknown_snapshot", SKIP, 1, "No such snapshot"),
    LearnerBusy: Policy(503, "learner_busy", SKIP, 1, "Learner busy"),
    NotExportable: Policy(422, "not_exportable", SKIP, 2, "Cannot be exported"),
    Unexpected: Policy(500, "unexpected", STOP, 1, "Internal error"),
    learner.LearnerError: Policy(500, "learner", STOP, 1, "Learner failed"),
    learner.SchemaError: Policy(500, "schema", STOP, 2, "Schema is wrong"),
    learner.ParamsError: Policy(500, "params", STOP, 2, "Parameters are wrong"),
    learner.EncodeError: Policy(422, "encode", SKIP, 1, "Event does not fit the schema"),
    learner.BadValue: Policy(422, "bad_feature", SKIP, 1, "Bad feature"),
    learner.UnknownLabel: Policy(422, "too_many_classes", SKIP, 1, "Too many classes"),
    learner.SnapshotError: Policy(500, "snapshot", STOP, 4, "Model unreadable"),
    learner.SnapshotVersion: Policy(500, "snapshot_version", STOP, 4, "Model of another version"),
    learner.WorkerLost: Policy(503, "worker_lost", STOP, 5, "Worker lost"),
    learner.UnknownNode: Policy(404, "unknown_node", SKIP, 1, "No such node"),
}


# Errors of one record, by the names of their classes, and their reasons as labels.
REJECTIONS = {
    error.__name__: policy.reason
    for error, policy in POLICY.items()
    if issubclass(error, DecodeError | learner.UnknownLabel) and error is not DecodeError
}


def policy_of(exc: BaseException | type[BaseException]) -> Policy:
    """Return the row of an error or its class; anything unknown is a fault of ours."""
    kind = exc if isinstance(exc, type) else type(exc)
    for ancestor in kind.__mro__:
        if ancestor in POLICY:
            return POLICY[ancestor]
    return POLICY[Unexpected]


def problem(exc: BaseException) -> dict[str, Any]:
    """Return the application/problem+json document of an error; faults of ours tell nothing."""
    policy = policy_of(exc)
    ours = policy.status == 500 and not isinstance(exc, AppError | learner.LearnerError)
    found: dict[str, Any] = {
        "type": f"urn:livetree:problem:{policy.reason.replace('_', '-')}",
        "title": policy.title,
        "status": policy.status,
        "detail": "the service failed on this request; its log says why" if ours else str(exc),
    }
    field = getattr(exc, "field", None)
    if field is not None:
        found["field"] = field
    return found
