"""A broker that is away, or stands still: the service answers on and catches up by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app import wiring
from tests.app.conftest import events
from tests.app.test_wiring import learn_to, model_of
from tests.faults.conftest import given, settings_on
from tests.faults.served import Served
from tests.kafka.broker import Kafka

AWAY_SECONDS = 30.0
SHORTLY_AWAY_SECONDS = 8.0

OUR_LINES = ("broker unreachable, waiting", "broker trouble, retrying", "source reports a problem")


@pytest.fixture(scope="module")
def own(kafka_there: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Return a broker whose outages are nobody else's business."""
    with Kafka(tmp_path_factory.mktemp("outage") / "broker") as running:
        yield running


def gone(broker: Kafka) -> None:
    broker.kill()


def back(broker: Kafka) -> None:
    broker.start()


def standing_still(broker: Kafka) -> None:
    broker.pause()


def moving_again(broker: Kafka) -> None:
    broker.resume()


@pytest.mark.parametrize(
    ("leave", "come_back", "seconds"),
    [(gone, back, AWAY_SECONDS), (standing_still, moving_again, SHORTLY_AWAY_SECONDS)],
)
def test_a_broker_that_is_away_is_waited_for_while_predictions_go_on(
    own: Kafka,
    serve: Callable[..., Served],
    tmp_path: Path,
    leave: Callable[[Kafka], None],
    come_back: Callable[[Kafka], None],
    seconds: float,
) -> None:
    topic, folder = own.topic(), tmp_path / "checkpoints"
    served = serve(given(own, topic, folder))
    own.send(topic, *events(300))
    served.wait_until_ready()
    served.wait_until_learned(300)
    served.wait(lambda: served.metric("livetree_source_connected", topic=topic) == 1)
    before = len(served.lines)

    leave(own)
    try:
        began = time.monotonic()
        served.wait(lambda: served.metric("livetree_source_connected", topic=topic) == 0)
        while time.monotonic() < began + seconds:
            assert served.predicts()
            assert served.get("/readyz")[0] == 200
            assert served.get("/livez")[0] == 200
            time.sleep(0.2)
        lines = served.lines[before:]
    finally:
        come_back(own)
    served.wait(lambda: served.metric("livetree_source_connected", topic=topic) == 1)
    own.send(topic, *events(300, seed=2))
    served.wait_until_learned(600)

    assert any(served.said(line) for line in OUR_LINES), served.log
    assert len(lines) < 2 * (time.monotonic() - began), "\n".join(lines)  # seldom
    assert served.said("source is there again")[0]["away_seconds"] > 0
    assert served.terminate() == 0, served.log
    straight = settings_on(own, topic, tmp_path / "straight")
    learn_to(wiring.build(straight), 600)
    assert model_of(folder) == model_of(straight.checkpoint.folder)


def test_a_broker_that_comes_after_the_service_is_waited_for(
    kafka_there: Path, serve: Callable[..., Served], tmp_path: Path
) -> None:
    late = Kafka(tmp_path / "late")
    served = serve(given(late, "clicks", tmp_path / "checkpoints"))
    served.wait_for("broker unreachable, waiting")
    assert served.get("/livez")[0] == 200
    assert served.get("/readyz")[0] == 503

    with late:
        served.wait_for("topic is not there, waiting")
        late.create_topic("clicks")
        late.send("clicks", *events(100))
        served.wait_until_learned(100)
        assert served.terminate() == 0, served.log
