"""Which topic this is: Kafka gives a topic an id, and one that is created anew another id.

A name and an offset alone cannot tell a topic that was deleted and created again from the one that
was learned from. Only an AdminClient may ask for the id, so this is a second connection, opened at
the first question. A question is put without waiting; its answer is there some polls later, or is
waited for where something depends on it. Brokers that cannot answer, or may not, are taken at their
word: then the id is unknown, and nothing is compared.
"""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillWaiting
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from app.log import get_logger
from app.settings import KafkaSettings

log = get_logger(__name__)

REQUEST_SECONDS = 5.0
IN_MEMORY = "mockCluster"  # so the ids of app/embedded.py's brokers begin; they know no topic ids

# No later answer will be another one.
REFUSALS = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError._UNSUPPORTED_FEATURE,
    KafkaError._INVALID_ARG,
)


class TopicId:
    """Asks one cluster for the id of one topic; used by one thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: AdminClient | None = None
        self._question: Future[Any] | None = None
        self._refused = False

    def ask(self, cluster: str | None) -> None:
        """Put the question, unless one is under way or there is nobody to answer it."""
        in_memory = (cluster or "").startswith(IN_MEMORY)
        if self._refused or in_memory or self._question is not None:
            return
        topic = self._settings.topic
        try:
            if self._admin is None:
                quiet = {"log_level": 0}  # the consumer tells what goes wrong with the broker
                self._admin = AdminClient({**self._settings.client_properties(), **quiet})
            elif self._settings.password_file is not None:
                password = self._settings.current_password() or ""
                self._admin.set_sasl_credentials(self._settings.username or "", password)
            self._question = self._admin.describe_topics(
                TopicCollection([topic]), request_timeout=REQUEST_SECONDS
            )[topic]
        except OSError:  # the file with the password, for a moment: the consumer tells of it
            return
        except KafkaException as exc:
            self._refuse(exc.args[0])

    @property
    def answered(self) -> bool:
        """Whether an answer waits to be taken."""
        return self._question is not None and self._question.done()

    def answer(self, wait_seconds: float = 0.0) -> str | None:
        """Take the answer; None when there is none yet, or nobody knows."""
        if self._question is None:
            return None
        try:
            described = self._question.result(wait_seconds)
        except StillWaiting:
            if wait_seconds:
                log.warning("topic id not known yet, going on", topic=self._settings.topic)
            return None
        except KafkaException as exc:
            self._question = None
            if exc.args[0].code() in REFUSALS:
                self._refuse(exc.args[0])
            return None
        self._question = None
        return str(described.topic_id)

    def _refuse(self, error: KafkaError) -> None:
        self._refused = True
        log.warning(
            "topic id not to be had; a topic that is created anew may go unnoticed",
            topic=self._settings.topic,
            error=error.str(),
        )
