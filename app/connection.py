"""What every Kafka client of the service shares: its properties, its troubles, its password.

A broker that cannot be reached, does not trust us or is not trusted by us is waited for: the model
goes on answering, and what is wrong may be mended from outside. The log names the cause in a line
of its own. A password that comes from a file is read again when the broker refuses the old one.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException

from app.errors import SettingsError
from app.log import Seldom, get_logger
from app.secret import hide, masked
from app.settings import KafkaSettings

log = get_logger(__name__)

LOOK_SECONDS = 3.0  # for a look at the certificate of a broker that is not trusted
ADDRESS = re.compile(r"://(?P<host>[^/]+):(?P<port>\d+)/")

# How every topic is read here: offsets are ours to keep, never the client's to move.
READING: dict[str, str | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
    "enable.partition.eof": True,  # tells where a partition ends, which no record does
}

REFUSED = "the broker refuses our credentials, waiting"
NOT_TRUSTED = "the broker's certificate is refused, waiting"
WE_ARE_NOT_TRUSTED = "the broker refuses our certificate or the lack of one, waiting"


class Client(Protocol):
    """A consumer or a producer."""

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these when connecting from now on."""


class Connection:
    """Properties and callbacks for one client; used by one thread."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.fatal: str | None = None  # what ended the client for good
        self._settings = settings
        self._seldom = Seldom()
        self._password: str | None = None
        self._password_refused = False

    def properties(self) -> dict[str, Any]:
        """Return what the client is made with, secrets included."""
        try:
            properties: dict[str, Any] = dict(self._settings.client_properties())
        except (OSError, UnicodeDecodeError) as exc:
            raise SettingsError([f"kafka.password_file cannot be read: {exc}"]) from exc
        self._password = properties.get("sasl.password")
        return properties | {
            "error_cb": self.on_error,
            "logger": logging.getLogger("librdkafka"),
        }

    def renew(self, client: Client) -> None:
        """Take up a password that has changed in its file, if the broker refused the last one."""
        if not self._password_refused:
            return
        self._password_refused = False
        if self._settings.password_file is None or "sasl.password" in self._settings.extra:
            return
        try:
            password = self._settings.current_password()
        except (OSError, UnicodeDecodeError) as exc:
            self.say("kafka.password_file cannot be read", error=str(exc))
            return
        if password and password != self._password:
            hide(password)
            self._password = password
            client.set_sasl_credentials(self._settings.username or "", password)
            log.info("password read again", file=str(self._settings.password_file))

    def say(self, event: str, **more: Any) -> None:
        """Log a line that could repeat many times a second, once in a while."""
        if self._seldom.due(event):
            log.warning(event, bootstrap_servers=self._settings.bootstrap_servers, **more)

    def on_error(self, error: KafkaError) -> None:
        """Note what the client library reports by itself; only fatal errors end anything."""
        said = masked(error.str())
        if error.fatal():
            self.fatal = said
        elif error.code() == KafkaError._AUTHENTICATION:
            self._password_refused = True
            self._say_cause(REFUSED, error=said)
        elif "certificate verify failed" in said:
            self._say_cause(NOT_TRUSTED, error=said, lookup=True)
        elif "alert" in said and "certificate" in said:
            self._say_cause(WE_ARE_NOT_TRUSTED, error=said)
        else:
            self.say("broker trouble, retrying", error=said)

    def _say_cause(self, event: str, *, error: str, lookup: bool = False) -> None:
        """Log what waiting alone hardly mends, as an error."""
        if not self._seldom.due(event):
            return
        cause = certificate_fault(error, self._settings) if lookup else None
        named = {"cause": cause} if cause else {}
        log.error(event, **named, error=error, bootstrap_servers=self._settings.bootstrap_servers)


def certificate_fault(error: str, settings: KafkaSettings) -> str | None:
    """Return why the certificate of the broker in this error is refused; None: it did not show.

    The client library says the same of a wrong authority, a wrong name and a date that has passed.
    """
    found = ADDRESS.search(error)
    if found is None:
        return None
    host, port = found["host"].strip("[]"), int(found["port"])
    try:
        context = ssl.create_default_context()
        if settings.ssl_ca_file is not None:
            context = ssl.create_default_context(cafile=str(settings.ssl_ca_file))
        context.check_hostname = settings.ssl_verify_hostname
        with (
            socket.create_connection((host, port), LOOK_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as exc:
        return f"{host}:{port}: {exc.verify_message}"
    except (OSError, ValueError):
        return None


def refused(exc: KafkaException) -> SettingsError:
    """Return the error of properties that the client library does not take."""
    return SettingsError([f"kafka (LIVETREE_KAFKA__...): {masked(exc.args[0].str())}"])
