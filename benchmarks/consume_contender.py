"""One contender of benchmarks.consume, alone in its process: reads a topic and tells how long."""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from confluent_kafka import Consumer, Message, TopicPartition

from learner import Kind, Schema
from streams import open_stream

JSON, BINARY = "json", "binary"
ROWS = 100  # events in a message of many
BATCH = 1000
WARM_SHARE = 10  # one in so many events is read before the clock starts
RIVER_SHARE = 20  # river reads one in so many


class Case(NamedTuple):
    """What lies in a topic."""

    stream: str
    form: str
    events: int
    rows: int = 0  # events in a message; 0: one, and plain

    def __str__(self) -> str:
        return f"{self.stream}, {self.form}" + (f", {self.rows} a message" if self.rows else "")

    def schema(self) -> Schema:
        """The events' schema, with all values and classes."""
        return open_stream(self.stream, seed=1).schema

    def writer(self) -> Callable[[Sequence[dict[str, Any]]], Iterable[bytes]]:
        """What makes messages of events."""
        if self.form == JSON:
            encoder = msgspec.json.Encoder()
            return lambda events: map(encoder.encode, events)
        from app.binary import RowLayout
        from app.settings import EventSettings

        layout = RowLayout(self.schema(), EventSettings(format="binary"))
        rows = self.rows or 1
        return lambda events: (
            layout.pack(events[at : at + rows]) for at in range(0, len(events), rows)
        )

    def settings(self, address: str, topic: str, folder: Path) -> dict[str, Any]:
        """The settings of a service that learns it."""
        return {
            "kafka": {"bootstrap_servers": address, "topic": topic},
            "event": {"format": self.form},
            "schema": self.schema().to_dict(),
            "checkpoint": {"folder": str(folder / "checkpoints")},
        }


class Result(msgspec.Struct):
    """Seconds of so many events."""

    events: int
    wall: float
    thread: float
    process: float
    facts: dict[str, Any] = {}
    stages: dict[str, float] = {}


class Clock:
    """Starts and stops by the number of events that went by, in the thread that asks it."""

    def __init__(self, events: int, on_start: Callable[[], None] = lambda: None) -> None:
        self._on_start = on_start
        self.first, self.last = events // WARM_SHARE, events
        self._began: tuple[int, float, float, float] | None = None
        self.result: Result | None = None

    def passed(self, events: int) -> bool:
        """Note how many events are done; True when all are."""
        if self._began is None and events >= self.first:
            self._on_start()
            self._began = events, *_now()
        if self._began is not None and events >= self.last and self.result is None:
            spent = (end - start for end, start in zip(_now(), self._began[1:], strict=True))
            self.result = Result(events - self._began[0], *spent)
        return self.result is not None


def _now() -> tuple[float, float, float]:
    return time.perf_counter(), time.thread_time(), time.process_time()


def consumer(case: Case, address: str, topic: str) -> Consumer:
    """A client with the very settings of livetree's own."""
    from app.kafka_source import KafkaSource
    from app.settings import Settings

    settings = Settings.load(environ={}, **case.settings(address, topic, Path()))
    client = KafkaSource(settings.kafka)._consumer
    client.assign([TopicPartition(topic, 0, 0)])
    return client


def batches(client: Consumer) -> Iterable[list[Message]]:
    """Messages without end; the loop that everybody writes, as quick as it gets."""
    while True:
        first = client.poll(0.2)
        if first is not None and first.error() is None:
            yield [first, *client.consume(BATCH - 1, 0)]


def poll_only(case: Case, address: str, topic: str) -> Result:
    """Polls."""
    clock, done = Clock(case.events), 0
    for messages in batches(consumer(case, address, topic)):
        done += len(messages) * (case.rows or 1)
        if clock.passed(done):
            break
    return _finished(clock)


def poll_and_decode(case: Case, address: str, topic: str) -> Result:
    """Polls and decodes into arrays: msgspec's Struct, tuples, columns, codes."""
    schema = case.schema()
    types = {Kind.NUMERIC: float, Kind.NOMINAL: str}
    fields = [(feature.name, types[feature.kind]) for feature in schema.features]
    event = msgspec.defstruct("Event", [*fields, ("label", str)], gc=False)
    decode, as_tuple = msgspec.json.Decoder(event).decode, msgspec.structs.astuple
    numeric, nominal = schema.of_kind(Kind.NUMERIC), schema.of_kind(Kind.NOMINAL)
    pick = itemgetter(*numeric)
    codes = {p: {v: k for k, v in enumerate(schema.features[p].values)} for p in nominal}
    classes = {label: code for code, label in enumerate(schema.classes)}
    clock, done = Clock(case.events), 0
    for messages in batches(consumer(case, address, topic)):
        rows = [as_tuple(decode(message.value())) for message in messages if not message.error()]
        _numbers = np.array(list(map(pick, rows)), np.float64)
        _values = [np.array([codes[p][row[p]] for row in rows], np.int32) for p in nominal]
        _labels = np.array([classes[row[-1]] for row in rows], np.int32)
        done += len(rows)
        if clock.passed(done):
            break
    return _finished(clock)


def river(case: Case, address: str, topic: str) -> Result:
    """River's Hoeffding tree, majority leaves, test then train, on JSON read by msgspec."""
    from river.tree import HoeffdingTreeClassifier

    schema = case.schema()
    model = HoeffdingTreeClassifier(
        grace_period=200,
        delta=1e-7,
        tau=0.05,
        split_criterion="info_gain",
        leaf_prediction="mc",
        nominal_attributes=[schema.features[p].name for p in schema.of_kind(Kind.NOMINAL)],
    )
    decode = msgspec.json.Decoder(dict[str, float | str]).decode
    clock, done, right = Clock(case.events // RIVER_SHARE), 0, 0
    for messages in batches(consumer(case, address, topic)):
        for message in messages:
            if message.error():
                continue
            event = decode(message.value())
            label = event.pop("label")
            right += model.predict_one(event) == label
            model.learn_one(event, label)
        done += len(messages)
        if clock.passed(done):
            break
    result = _finished(clock)
    result.facts = {"accuracy": round(right / done, 4)}
    return result


def livetree(case: Case, address: str, topic: str, profile: bool = False) -> Result:
    """What `livetree serve` runs beside its API."""
    from app.kafka_source import KafkaSource
    from app.settings import Settings
    from app.warmup import warm_up
    from app.wiring import build

    stages = Stages()
    clock, finished = Clock(case.events, stages.clear), threading.Event()

    class Watched(KafkaSource):
        done = 0

        def poll(self, limit: int) -> Any:
            if clock.passed(self.done):  # what was polled before is learned by now
                finished.set()
                time.sleep(0.01)
                return []
            records = super().poll(limit)
            self.done += len(records) * (case.rows or 1)
            return records

    with tempfile.TemporaryDirectory(prefix="livetree-consume-") as folder:
        settings = Settings.load(environ={}, **case.settings(address, topic, Path(folder)))
        warm_up(settings.variant, settings.tree.given())
        service = build(settings, source=Watched(settings.kafka))
        if profile:
            stages.watch(service)
        service.start()
        while not finished.wait(0.05):
            if service.failure is not None:
                raise service.failure
        scores = service.consumer.training.evaluation.scores()
        service.stop()
    result = _finished(clock)
    result.facts = {"accuracy": round(scores.accuracy or 0.0, 4)}
    if profile:
        result.stages = stages.table(result)
    return result


class Stages:
    """CPU time of the consuming thread by stage, each without the stages inside of it."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._inside: list[float] = []

    def clear(self) -> None:
        """Count from here."""
        self._seconds.clear()

    def watch(self, service: Any) -> None:
        """Time every stage of a service that is not started yet."""
        consumer, source = service.consumer, service.consumer.source
        self._watch(source._intake, "take", "take records from the client")
        self._watch(source, "_advanced", "offsets")
        self._watch(consumer._telemetry, "batch", "metrics of the batch")
        self._watch(consumer._telemetry, "tick", "metrics of the second")
        self._watch(consumer, "_publish_now", "publish")
        self._watch(consumer, "_begin_checkpoint", "checkpoint")
        began, begin = consumer.start, self._begin

        def start(training: Any, *more: Any) -> None:
            begin(training)
            began(training, *more)

        consumer.start = start

    def _begin(self, training: Any) -> None:
        self._watch(training, "_opened", "values, headers")
        self._watch(training._reader, "read", "decode, encode")
        self._watch(training.tree, "learn", "learn")
        self._watch(training.evaluation, "update", "evaluate")
        self._watch(training, "learn", "times, and what holds it together")

    def _watch(self, owner: Any, name: str, stage: str) -> None:
        setattr(owner, name, self.timed(getattr(owner, name), stage))

    def timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """The function, and its own time under the stage's name."""
        clock = time.thread_time

        @wraps(function)
        def watched(*args: Any, **more: Any) -> Any:
            self._inside.append(0.0)
            began = clock()
            try:
                return function(*args, **more)
            finally:
                whole = clock() - began
                inside = self._inside.pop()
                self._seconds[stage] = self._seconds.get(stage, 0.0) + whole - inside
                if self._inside:
                    self._inside[-1] += whole

        return watched

    def table(self, result: Result) -> dict[str, float]:
        """Seconds of each stage of the measured events, and what is left."""
        left = result.thread - sum(self._seconds.values())
        return {**self._seconds, "rest: the loop, letting messages go": left}


def _finished(clock: Clock) -> Result:
    assert clock.result is not None
    return clock.result


class Contender(NamedTuple):
    """A loop, and what it can read."""

    run: Callable[..., Result]
    forms: tuple[str, ...] = (JSON, BINARY)

    def reads(self, case: Case) -> bool:
        """Whether it can read the events of a case."""
        return case.form in self.forms


CONTENDERS = {
    "poll only": Contender(poll_only),
    "poll, decode": Contender(poll_and_decode, (JSON,)),
    "river": Contender(river, (JSON,)),
    "livetree": Contender(livetree),
}


def main(asked: str) -> None:
    """Run one contender and print its result."""
    from app.api.server import settle_collector
    from app.log import configure

    configure("error", "console", sys.stderr)
    settle_collector()  # for all alike: the collector has the same imports to look at
    given = json.loads(asked)
    case = Case(**given["case"])
    more = {"profile": True} if given["profile"] else {}
    result = CONTENDERS[given["name"]].run(case, given["address"], given["topic"], **more)
    print(msgspec.json.encode(result).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
