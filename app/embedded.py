"""A broker inside this process, for demos and tests: librdkafka's mock cluster.

It speaks to every librdkafka client on this machine (kcat, confluent-kafka), listens on
127.0.0.1 on a port of its own choice, and lives in memory only: each partition keeps about the
last 5 MiB, older records vanish without a word, and all of them do with the process. Clients in
Java cannot use it.
"""

from __future__ import annotations

import ctypes
import signal
from typing import Any, Self

import confluent_kafka

from app.errors import SourceError
from app.librdkafka import NUMBER, POINTER, SIZE, TEXT, functions

KEPT_BYTES = 5 * 1024 * 1024
"""What a partition holds before its oldest records are dropped."""

PRODUCER = 0  # rd_kafka_type_t
ALREADY_EXISTS = 36  # RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS


class EmbeddedBroker:
    """One mock broker; also a context manager.

    `start` gives it an address, `create_topic` a topic with a chosen number of partitions.
    """

    def __init__(self) -> None:
        self._library: Any = None
        self._client: int | None = None
        self._cluster: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return host:port of the running broker."""
        self._require_started()
        address: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return address.decode()

    def start(self) -> Self:
        """Start the broker; a second call changes nothing."""
        if self._cluster is not None:
            return self
        self._library = _librdkafka()
        reason = ctypes.create_string_buffer(512)
        properties = self._library.rd_kafka_conf_new()
        # This client only hosts the cluster; that it has no broker of its own is no news.
        self._library.rd_kafka_conf_set(properties, b"log_level", b"3", reason, len(reason))
        self._client = self._library.rd_kafka_new(PRODUCER, properties, reason, len(reason))
        if self._client:
            # Its thread takes an interrupted wait for the end of all: no signal may reach it. A
            # new thread blocks what its maker blocks.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._cluster = self._library.rd_kafka_mock_cluster_new(self._client, 1)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if not self._cluster:
            said = reason.value.decode() or "librdkafka gave no reason"
            raise SourceError(f"the embedded broker did not start: {said}")
        return self

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; one that exists is left as it is.

        Without this a topic appears on first use, with 4 partitions.
        """
        self._require_started()
        code = self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        if code not in (0, ALREADY_EXISTS):
            raise SourceError(
                f"topic '{name}' with {partitions} partition(s) was refused by the embedded "
                f"broker: {confluent_kafka.KafkaError(code).str()}"
            )

    def close(self) -> None:
        """Stop the broker; everything in it is gone."""
        if self._cluster is not None:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
        self._cluster = self._client = None

    def _require_started(self) -> None:
        if self._cluster is None:
            raise SourceError("the embedded broker is not running; expected start() before")

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.close()


def _librdkafka() -> Any:
    """Return the C functions of the mock cluster, which the Python client does not offer."""
    try:
        return functions(
            {
                "rd_kafka_conf_new": (POINTER, []),
                "rd_kafka_conf_set": (NUMBER, [POINTER, TEXT, TEXT, TEXT, SIZE]),
                "rd_kafka_new": (POINTER, [NUMBER, POINTER, TEXT, SIZE]),
                "rd_kafka_destroy": (None, [POINTER]),
                "rd_kafka_mock_cluster_new": (POINTER, [POINTER, NUMBER]),
                "rd_kafka_mock_cluster_destroy": (None, [POINTER]),
                "rd_kafka_mock_cluster_bootstraps": (TEXT, [POINTER]),
                "rd_kafka_mock_topic_create": (NUMBER, [POINTER, TEXT, NUMBER, NUMBER]),
            }
        )
    except (OSError, AttributeError) as exc:
        version = confluent_kafka.libversion()[0]
        raise SourceError(
            f"the embedded broker is not available: librdkafka {version} does not offer its mock "
            f"cluster on this system ({exc}); expected the address of a Kafka broker in "
            "LIVETREE_KAFKA__BOOTSTRAP_SERVERS"
        ) from exc
