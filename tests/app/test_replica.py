"""A learner and replicas of it on one machine, by a folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.api import create_app
from app.errors import SnapshotUnwritable
from app.metrics import Metrics
from app.publisher import Publisher
from app.settings import Settings
from app.snapshot_folder import FolderOutlet, file_of
from app.wiring import Service, build
from learner import Piece
from tests.app.conftest import events
from tests.app.snapshots import answers, message, published
from tests.service import DEADLINE_SECONDS

Make = Callable[..., Settings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "snapshots"


@pytest.fixture
def replica(make_settings: Make, folder: Path) -> Any:
    """Return a replica that follows the folder; it must end without a failure."""
    snapshots = {"transport": "folder", "folder": folder}
    service = build(make_settings(role="api", snapshots=snapshots))
    service.start()
    yield service
    service.stop()
    assert service.failure is None


def wait(until: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not until():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def put(folder: Path, content: bytes | memoryview) -> None:
    """Replace the file as a whole."""
    FolderOutlet(folder, "livetree").send([memoryview(content)], "p")


def refused(service: Service) -> dict[str, float]:
    """Return what was refused, by reason."""
    return {
        sample.labels["reason"]: sample.value
        for family in service.metrics.snapshots_refused.collect()
        for sample in family.samples
        if sample.value
    }


def served(service: Service) -> str | None:
    found = service.serving.current()
    return None if found is None else found.snapshot.id


def test_a_replica_is_ready_with_its_first_snapshot_and_not_before(
    replica: Service, folder: Path
) -> None:
    client = TestClient(create_app(replica))
    before = client.get("/readyz")
    put(folder, message(published()))
    wait(lambda: served(replica) == "vfdt-600")

    assert before.status_code == 503
    assert "waiting for a snapshot of the model 'livetree'" in before.json()["detail"]
    assert client.get("/readyz").status_code == 200
    assert client.get("/livez").status_code == 200


def test_an_answer_carries_id_offsets_and_age_of_the_learners_snapshot(
    replica: Service, folder: Path
) -> None:
    sent = published(published_at=time.time() - 60, window_events=77)
    put(folder, message(sent))
    wait(lambda: served(replica))
    client = TestClient(create_app(replica))

    answer = client.post("/predict", json={"features": {"age": 30}})
    model = client.get("/model").json()

    assert answer.json()["snapshot"] == "vfdt-600"
    assert answer.headers["livetree-snapshot"] == "vfdt-600"
    assert float(answer.headers["livetree-snapshot-age-seconds"]) > 59
    assert answer.headers["livetree-snapshot-offsets"] == "events-0=600"
    assert model["offsets"] == {"events-0": 600}
    assert model["accuracy"] == 0.9
    assert model["window"]["events"] == 77
    assert model["snapshot"]["published_at"] == pytest.approx(sent.published_at)


def test_the_newest_snapshot_answers_and_the_learner_may_go_back(
    replica: Service, folder: Path
) -> None:
    for count in (600, 900, 300):
        put(folder, message(published(count)))
        wait(lambda count=count: served(replica) == f"vfdt-{count}")

        assert answers(replica.serving.current()) == answers(published(count))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "snapshot_damaged"),
        (b"garbage" * 100, "snapshot_damaged"),
        (bytes(message(published(90)))[:-100], "snapshot_damaged"),
        (bytes(message(published(90), "other")), "foreign_snapshot"),
        (b"LIVETSNP\x09\x00\x00\x00" + bytes(100), "snapshot_format"),
    ],
    ids=["empty", "garbage", "cut off", "of another model", "of another version"],
)
def test_what_is_no_snapshot_is_counted_and_the_last_good_one_stays(
    replica: Service, folder: Path, bad: bytes, reason: str
) -> None:
    put(folder, message(published()))
    wait(lambda: served(replica) == "vfdt-600")
    put(folder, bad)
    wait(lambda: refused(replica))

    assert refused(replica) == {reason: 1}
    assert served(replica) == "vfdt-600"
    assert replica.ready() == (True, "ready")

    put(folder, message(published(900)))
    wait(lambda: served(replica) == "vfdt-900")


def test_a_replica_outlives_its_folder(replica: Service, folder: Path) -> None:
    put(folder, message(published()))
    wait(lambda: served(replica))
    file_of(folder, "livetree").unlink()
    folder.rmdir()
    gauge = replica.metrics.snapshot_source_connected
    wait(lambda: next(iter(gauge.collect())).samples[0].value == 0)

    assert replica.ready() == (True, "ready")
    put(folder, message(published(900)))
    wait(lambda: served(replica) == "vfdt-900")


def test_a_file_beyond_the_limit_is_not_read(make_settings: Make, folder: Path) -> None:
    snapshots = {"transport": "folder", "folder": folder, "max_bytes": 10_000}
    service = build(make_settings(role="api", snapshots=snapshots))
    put(folder, bytes(10_001))
    service.start()
    wait(lambda: refused(service))
    service.stop()

    assert refused(service) == {"snapshot_damaged": 1}
    assert served(service) is None


def test_a_learner_publishes_what_it_learns_and_answers_no_predictions(
    make_settings: Make, folder: Path, tmp_path: Path, replica: Service
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(events(1500)) + b"\n")
    learner = build(
        make_settings(
            role="learner",
            source="file",
            file={"path": file},
            snapshots={"transport": "folder", "folder": folder, "every_seconds": 0},
        )
    )
    learner.start()
    wait(lambda: served(learner) == "vfdt-1500")
    wait(lambda: served(replica) == "vfdt-1500")
    client = TestClient(create_app(learner))

    asked = client.post("/predict", json={"features": {"age": 30}})

    assert asked.status_code == 421
    assert "role 'api'" in asked.json()["detail"]
    for path in ("/livez", "/readyz", "/metrics", "/model", "/tree", "/schema"):
        assert client.get(path).status_code == 200, path
    assert answers(replica.serving.current()) == answers(learner.serving.current())
    learner.stop()
    assert learner.failure is None


def test_the_last_snapshot_is_sent_at_the_end(
    make_settings: Make, folder: Path, tmp_path: Path, replica: Service
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(events(700)) + b"\n")
    snapshots = {"publish": True, "transport": "folder", "folder": folder, "every_seconds": 3600}
    service = build(make_settings(source="file", file={"path": file}, snapshots=snapshots))
    service.start()
    wait(lambda: served(service) == "vfdt-700")
    with file.open("ab") as more:
        more.write(b"\n".join(events(100, seed=2)) + b"\n")
    wait(lambda: served(service) == "vfdt-800")
    service.stop()

    wait(lambda: served(replica) == "vfdt-800")


class Outlet:
    """Refuses as long as it is told to."""

    name = "folder"

    def __init__(self) -> None:
        self.refuses, self.tried, self.sent = True, 0, []
        self.closed = False

    def send(self, message: Sequence[Piece], publication: str) -> None:  # noqa: ARG002
        self.tried += 1
        if self.refuses:
            raise SnapshotUnwritable("not now")
        self.sent.append(publication)

    def close(self) -> None:
        self.closed = True


def test_what_cannot_be_sent_is_tried_again_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.publisher.RETRY_FIRST_SECONDS", 0.01)
    outlet, metrics = Outlet(), Metrics()
    publisher = Publisher("livetree", [outlet], 0.0, metrics)
    publisher.start()
    publisher.offer(published())
    wait(lambda: outlet.tried >= 3)
    outlet.refuses = False
    wait(lambda: outlet.sent)
    publisher.stop(60)

    assert len(outlet.sent) == 1
    assert outlet.closed
    assert "publisher" not in [thread.name for thread in threading.enumerate()]


def test_a_publisher_that_ends_is_a_failure_of_the_service(
    make_settings: Make, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("a fault of ours")

    monkeypatch.setattr(FolderOutlet, "send", fails)
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join(events(600)) + b"\n")
    snapshots = {"transport": "folder", "folder": folder}
    settings = make_settings(
        role="learner", source="file", file={"path": file}, snapshots=snapshots
    )
    learner = build(settings)
    learner.start()
    wait(lambda: learner.failure is not None)
    learner.stop()

    assert "a fault of ours" in str(learner.failure)
    assert not learner.alive()


def test_snapshots_that_come_while_one_is_sent_are_passed_over() -> None:
    outlet = Outlet()
    outlet.refuses = False
    publisher = Publisher("livetree", [outlet], 3600.0, Metrics())
    for count in (300, 600, 900):
        publisher.offer(published(count))
    publisher.start()
    wait(lambda: outlet.sent)
    publisher.offer(published(1200))
    publisher.stop(60)

    assert len(outlet.sent) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"role": "learner", "http": {"workers": 2}}, "expected 1 in the role 'learner'"),
        ({"http": {"workers": 2}}, "expected 1 in the role 'all'"),
        ({"role": "api", "snapshots": {"transport": "both"}}, "expected topic or folder"),
    ],
)
def test_settings_that_do_not_go_with_the_role_are_refused(
    make_settings: Make, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        make_settings(**given)
