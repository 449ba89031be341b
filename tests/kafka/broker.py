"""Apache Kafka itself, for tests: fetched from Maven Central once, started on free ports.

The jars are kept in the user's cache folder, outside the repository. One process is broker and
controller at once (KRaft); its data lie in a folder of the test run.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.brokers import Broker

VERSION = "4.3.1"
CACHE = Path.home() / ".cache" / "livetree" / f"kafka-{VERSION}"
START_SECONDS = 120.0
QUICK_JVM = ("-Xms128m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOUD_ONLY = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>broker</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

PROPERTIES: dict[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 16_777_216,
    "log.cleaner.backoff.ms": 200,
    "log.initial.task.delay.ms": 100,
    "log.retention.check.interval.ms": 500,
    "log.retention.ms": -1,  # records of long ago would be deleted at once
    "message.max.bytes": 20_000_000,
    "socket.request.max.bytes": 104_857_600,
}


class Unavailable(Exception):
    """Kafka cannot be had on this machine; the message says why."""


def libraries() -> Path:
    """Return the folder of Kafka's jars; fetches them at the first call on a machine."""
    if shutil.which("java") is None:
        raise Unavailable("there is no `java`; Apache Kafka needs Java 17 or newer")
    folder = CACHE / "libs"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come at once
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise Unavailable("there is no `mvn`, with which Apache Kafka is fetched")
    (CACHE / "pom.xml").write_text(POM)
    unfinished = folder.with_suffix(".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    fetched = subprocess.run(
        ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime",
         f"-DoutputDirectory={unfinished}"],
        cwd=CACHE, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if fetched.returncode != 0:
        raise Unavailable(f"Maven did not bring Apache Kafka: {fetched.stdout[-500:]}")
    unfinished.rename(folder)


class Kafka(Broker):
    """One broker; `start` after `stop` or `kill` brings it back with its data and its ports.

    Further listeners are given by name and security protocol, `{"TLS": "SSL"}`; their addresses
    are in `addresses`. The listener PLAINTEXT is always there.
    """

    def __init__(
        self,
        folder: Path,
        *,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, object] | None = None,
        scram_users: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {}), "CONTROLLER": "PLAINTEXT"}
        self.addresses = dict(zip(protocols, _free_addresses(len(protocols)), strict=True))
        self.cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._process: subprocess.Popen[bytes] | None = None
        self._libraries = libraries()
        folder.mkdir(parents=True)
        self._configuration = folder / "server.properties"
        self._configure(protocols, properties or {})
        self._format(scram_users or {})
        super().__init__(self.addresses["PLAINTEXT"])
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _configure(self, protocols: Mapping[str, str], more: Mapping[str, object]) -> None:
        all_listeners = ",".join(f"{name}://{at}" for name, at in self.addresses.items())
        advertised = ",".join(
            f"{name}://{at}" for name, at in self.addresses.items() if name != "CONTROLLER"
        )
        own = {
            "listeners": all_listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
            "controller.quorum.bootstrap.servers": self.addresses["CONTROLLER"],
            "log.dirs": self.folder / "data",
        }
        lines = [f"{key}={value}" for key, value in {**PROPERTIES, **own, **more}.items()]
        self._configuration.write_text("\n".join(lines) + "\n")

    def _format(self, scram_users: Mapping[str, str]) -> None:
        users = [
            argument
            for user, password in scram_users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for argument in ("-S", f"{mechanism}=[name={user},password={password}]")
        ]
        subprocess.run(
            [*self._java("kafka.tools.StorageTool"), "format", f"--cluster-id={self.cluster_id}",
             "-c", str(self._configuration), "--standalone", *users],
            check=True, capture_output=True, timeout=START_SECONDS,
        )  # fmt: skip

    def _java(self, program: str) -> list[str]:
        return ["java", *QUICK_JVM, LOUD_ONLY, "-cp", f"{self._libraries}/*", program]

    def start(self) -> Self:
        """Start the process, unless it runs, and wait until it answers."""
        if self._process is not None:
            return self
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java("kafka.Kafka"), str(self._configuration)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.admin.list_topics(timeout=1)
                return self
            except KafkaException:
                assert self._process.poll() is None, (self.folder / "broker.log").read_text()
                assert time.monotonic() < deadline, "the broker does not answer"

    def stop(self) -> None:
        """Stop the process in an orderly way."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let the process stand still: connections stay, nobody answers."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _end(self, sig: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(sig)
            self._process.wait(START_SECONDS)
            self._process = None

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; `retention_ms="1"` is the property retention.ms."""
        properties = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=properties)
        for future in self.admin.create_topics([topic]).values():
            future.result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        for future in self.admin.delete_topics([name]).values():
            future.result(30)
        deadline = time.monotonic() + 30
        while name in self.admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline, "the topic does not go away"
            time.sleep(0.1)

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions, and wait until whoever asks is told of them."""
        for future in self.admin.create_partitions([NewPartitions(topic, total)]).values():
            future.result(30)
        while len(self.admin.list_topics(topic, timeout=30).topics[topic].partitions) < total:
            time.sleep(0.05)

    def transactional(self, name: str) -> Producer:
        """Return a producer whose records count only once their transaction is committed."""
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": name,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        return producer

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.kill()


def _free_addresses(count: int) -> list[str]:
    """Return addresses that nobody listens on; held all at once, so that they differ."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{place.getsockname()[1]}" for place in held]
    for place in held:
        place.close()
    return addresses
