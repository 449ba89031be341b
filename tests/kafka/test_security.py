"""Kafka behind certificates and passwords: every way in, and every way to be kept out."""

from __future__ import annotations

import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from app import secret
from app.connection import NOT_TRUSTED, REFUSED, WE_ARE_NOT_TRUSTED
from app.deadletter import KafkaDeadLetters, Reason
from app.errors import BadLabel, DeadLetterLost, SettingsError, SourceError, policy_of
from app.kafka_source import KafkaSource
from app.settings import KafkaSettings, Settings
from app.source import Record, Start
from app.wiring import Service, build
from tests.app.conftest import events
from tests.certificates import Authority
from tests.kafka.broker import Kafka

DEADLINE_SECONDS = 120
USER, PASSWORD = "learner", "hush-hush-of-the-learner"
KEY_PASSWORD = "hush-hush-of-the-key"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
)
OAUTH = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";'
)
LISTENERS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "MISNAMED": "SSL",
    "SCRAM": "SASL_SSL",
    "PLAIN": "SASL_PLAINTEXT",
    "OAUTH": "SASL_PLAINTEXT",
}


class Secured(Kafka):
    """One broker with a listener for each kind of security."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "ours")
        self.stranger = Authority(folder / "strange")
        self.client = self.authority.issue("client.example")
        self.sealed = self.authority.issue("sealed.example", KEY_PASSWORD)
        here = self.authority.issue("127.0.0.1")
        elsewhere = self.authority.issue("elsewhere.example")
        properties: dict[str, object] = {
            # Nothing is forbidden but what a test forbids.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.scram.scram-sha-256.sasl.jaas.config": SCRAM,
            "listener.name.scram.scram-sha-512.sasl.jaas.config": SCRAM,
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": PLAIN,
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.oauth.oauthbearer.sasl.jaas.config": OAUTH,
        }
        for listener, own in {
            "tls": here, "mtls": here, "scram": here, "misnamed": elsewhere,
        }.items():  # fmt: skip
            properties |= {
                f"listener.name.{listener}.ssl.keystore.type": "PEM",
                f"listener.name.{listener}.ssl.keystore.location": own.both,
                f"listener.name.{listener}.ssl.truststore.type": "PEM",
                f"listener.name.{listener}.ssl.truststore.location": self.authority.ca,
            }
        super().__init__(
            folder / "broker",
            listeners=LISTENERS,
            properties=properties,
            scram_users={USER: PASSWORD},
        )

    def leave_to_others(
        self, kind: ResourceType, name: str, operation: AclOperation = AclOperation.ALL
    ) -> None:
        """Take a right to a topic or a group away from our user."""
        rule = AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:others", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for future in self.admin.create_acls([rule]).values():
            future.result(30)

    def way(self, listener: str, **more: Any) -> dict[str, Any]:
        """Return the settings that lead to a listener."""
        ca = {} if "PLAINTEXT" in LISTENERS[listener] else {"ssl_ca_file": self.authority.ca}
        return {
            "bootstrap_servers": self.addresses[listener],
            "security_protocol": LISTENERS[listener],
            "fetch_wait_ms": 10,
            **ca,
            **more,
        }


@pytest.fixture(scope="module")
def secured(kafka_there: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Return a running broker."""
    with Secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


@contextmanager
def learning(settings: Settings) -> Iterator[Service]:
    """Run a service without its API."""
    service = build(settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def wait_until(happened: Callable[[], object], service: Service | None = None) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert service is None or service.failure is None, service.failure
        assert time.monotonic() < deadline
        time.sleep(0.05)


def learned(service: Service) -> int:
    published = service.serving.current()
    return published.snapshot.events if published is not None else 0


def ways(secured: Secured, folder: Path) -> dict[str, dict[str, Any]]:
    """Return every way in by its name."""
    (folder / "password").write_text(f"{PASSWORD}\n")
    client, sealed = secured.client, secured.sealed
    user = {"username": USER, "password": PASSWORD}
    return {
        "TLS": secured.way("TLS"),
        "TLS without a look at the name": secured.way("MISNAMED", ssl_verify_hostname=False),
        "client certificate": secured.way(
            "MTLS", ssl_certificate_file=client.certificate, ssl_key_file=client.key
        ),
        "client certificate with a password": secured.way(
            "MTLS",
            ssl_certificate_file=sealed.certificate,
            ssl_key_file=sealed.key,
            ssl_key_password=KEY_PASSWORD,
        ),
        "SCRAM-SHA-256": secured.way("SCRAM", sasl_mechanism="SCRAM-SHA-256", **user),
        "SCRAM-SHA-512": secured.way(
            "SCRAM",
            sasl_mechanism="SCRAM-SHA-512",
            username=USER,
            password_file=folder / "password",
        ),
        "PLAIN": secured.way("PLAIN", sasl_mechanism="PLAIN", **user),
        "OAUTHBEARER": secured.way(
            "OAUTH",
            sasl_mechanism="OAUTHBEARER",
            extra={
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={USER}",
            },
        ),
        "all by properties": {
            "bootstrap_servers": secured.addresses["SCRAM"],
            "extra": {
                "security.protocol": "sasl_ssl",
                "ssl.ca.pem": secured.authority.ca.read_text(),
                "sasl.mechanisms": "SCRAM-SHA-512",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            },
        },
    }


WAYS = (
    "TLS", "TLS without a look at the name", "client certificate",
    "client certificate with a password", "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER",
    "all by properties",
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_a_service_learns_and_sets_records_aside_through(
    way: str, secured: Secured, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    topic = secured.topic()
    secured.send(topic, *events(50), b"poison", *events(50, seed=2))
    found = ways(secured, tmp_path)
    assert set(found) == set(WAYS)
    settings = make_settings(
        kafka={**found[way], "topic": topic},
        schema={"infer_from": 20},
        publish={"every_seconds": 0.1},
    )

    with learning(settings) as service:
        wait_until(lambda: learned(service) == 100, service)

    (letter,) = secured.read(f"{topic}.dlq", 1)
    assert letter.value() == b"poison"
    assert PASSWORD not in str(settings.shown()) + repr(settings)


class Tokens(BaseHTTPRequestHandler):
    """Gives out tokens as an identity provider would, unsigned."""

    def do_POST(self) -> None:
        now = int(time.time())
        claims = {"sub": USER, "iat": now, "exp": now + 600, "scope": "learn"}
        parts = [urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=")
                 for p in ({"alg": "none"}, claims)]  # fmt: skip
        body = json.dumps({"access_token": f"{parts[0]}.{parts[1]}.", "expires_in": 600}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


def test_tokens_are_fetched_where_the_properties_say(
    secured: Secured, make_settings: Callable[..., Settings]
) -> None:
    topic = secured.topic()
    secured.send(topic, *events(50), b"poison")
    provider = HTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    bearer = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "livetree",
        "sasl.oauthbearer.client.secret": PASSWORD,
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{provider.server_port}/token",
    }
    settings = make_settings(
        kafka=secured.way("OAUTH", sasl_mechanism="OAUTHBEARER", extra=bearer, topic=topic),
        schema={"infer_from": 20},
        publish={"every_seconds": 0.1},
    )

    with learning(settings) as service:
        wait_until(lambda: learned(service) == 50, service)
    provider.shutdown()
    provider.server_close()

    assert [message.value() for message in secured.read(f"{topic}.dlq", 1)] == [b"poison"]


@contextmanager
def lines_of(source: KafkaSource) -> Iterator[Callable[[str], dict[str, Any]]]:
    """Poll a source until a line is logged; it must neither fail nor bring records."""
    source.open(Start())
    with structlog.testing.capture_logs() as lines:

        def said(event: str) -> dict[str, Any]:
            deadline = time.monotonic() + DEADLINE_SECONDS
            while True:
                assert source.poll(10) == []
                for line in lines:
                    if line["event"] == event:
                        return dict(line)
                assert time.monotonic() < deadline, lines

        yield said
    source.close()


def kept_out(secured: Secured, way: dict[str, Any], event: str) -> dict[str, Any]:
    """Return the line that says why a source gets nowhere."""
    topic = secured.topic()
    secured.send(topic, b"x")
    with lines_of(KafkaSource(KafkaSettings(**way, topic=topic))) as said:
        line = said(event)
        assert said("broker unreachable, waiting")
        assert line["log_level"] == "error"
        assert line["bootstrap_servers"] == way["bootstrap_servers"]
        return line


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_a_wrong_password_is_named_and_waited_out(secured: Secured, mechanism: str) -> None:
    listener = "PLAIN" if mechanism == "PLAIN" else "SCRAM"
    way = secured.way(
        listener, sasl_mechanism=mechanism, username=USER, password="not-the-right-one"
    )

    line = kept_out(secured, way, REFUSED)

    assert "Authentication failed" in line["error"]
    assert "not-the-right-one" not in str(line)


def test_a_mechanism_that_the_broker_does_not_offer_is_named_with_those_it_does(
    secured: Secured,
) -> None:
    way = secured.way("SCRAM", sasl_mechanism="PLAIN", username=USER, password=PASSWORD)

    assert "supported mechanisms: SCRAM-SHA-512" in kept_out(secured, way, REFUSED)["error"]


def test_a_wrong_authority_a_wrong_name_and_a_missing_certificate_are_told_apart(
    secured: Secured,
) -> None:
    authority = kept_out(
        secured, secured.way("TLS") | {"ssl_ca_file": secured.stranger.ca}, NOT_TRUSTED
    )
    name = kept_out(secured, secured.way("MISNAMED"), NOT_TRUSTED)
    missing = kept_out(secured, secured.way("MTLS"), WE_ARE_NOT_TRUSTED)

    address = secured.addresses
    assert authority["cause"].startswith(f"{address['TLS']}: ")
    assert "certificate" in authority["cause"]
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in name["cause"]
    assert name["cause"].startswith(f"{address['MISNAMED']}: ")
    assert "bad certificate" in missing["error"]


def test_a_service_that_is_refused_waits_and_goes_on_when_its_password_is_put_right(
    secured: Secured, make_settings: Callable[..., Settings], tmp_path: Path
) -> None:
    topic = secured.topic()
    secured.send(topic, *events(50), b"poison")
    file = tmp_path / "password"
    file.write_text("not-the-right-one\n")
    settings = make_settings(
        kafka=secured.way(
            "SCRAM", sasl_mechanism="SCRAM-SHA-512", username=USER, password_file=file, topic=topic
        ),
        schema={"infer_from": 20},
        publish={"every_seconds": 0.1},
    )

    with structlog.testing.capture_logs() as lines, learning(settings) as service:
        wait_until(lambda: REFUSED in [line["event"] for line in lines], service)
        waiting = (service.alive(), service.ready()[0])
        file.write_text(PASSWORD)
        wait_until(lambda: learned(service) == 50, service)

    assert waiting == (True, False)
    assert "password read again" in [line["event"] for line in lines]
    assert len(secured.read(f"{topic}.dlq", 1)) == 1
    assert PASSWORD not in str(lines)


def test_dead_letters_take_up_a_new_password_too(secured: Secured, tmp_path: Path) -> None:
    topic = secured.topic()
    file = tmp_path / "password"
    file.write_text("not-the-right-one\n")
    kafka = KafkaSettings(
        **secured.way("PLAIN", sasl_mechanism="PLAIN", username=USER, password_file=file)
    )
    letters = KafkaDeadLetters(kafka, f"{topic}.dlq", 60)
    letters.send(Record(topic, 0, 0, None, b"bad"), Reason("decode", BadLabel("none")))

    file.write_text(f"{PASSWORD}\n")
    letters.flush()
    letters.close()

    assert [message.value() for message in secured.read(f"{topic}.dlq", 1)] == [b"bad"]


def as_learner(secured: Secured, **more: Any) -> dict[str, Any]:
    return secured.way("PLAIN", sasl_mechanism="PLAIN", username=USER, password=PASSWORD, **more)


def test_a_topic_that_may_not_be_read_ends_the_service(
    secured: Secured, make_settings: Callable[..., Settings]
) -> None:
    topic = secured.topic()
    secured.leave_to_others(ResourceType.TOPIC, topic)

    with learning(make_settings(kafka=as_learner(secured, topic=topic))) as service:
        wait_until(lambda: service.failure is not None)

    assert isinstance(service.failure, SourceError)
    assert policy_of(service.failure).exit_code == 3
    assert f"topic '{topic}' may not be read" in str(service.failure)


def test_a_group_that_may_not_be_used_costs_lag_tools_alone(
    secured: Secured, make_settings: Callable[..., Settings]
) -> None:
    topic = secured.topic()
    secured.send(topic, *events(100))
    secured.leave_to_others(ResourceType.GROUP, f"group-of-{topic}")
    settings = make_settings(
        kafka=as_learner(secured, topic=topic, group_id=f"group-of-{topic}"),
        schema={"infer_from": 20},
        publish={"every_seconds": 0.1},
        checkpoint={"every_events": 10},
    )

    with learning(settings) as service:
        wait_until(lambda: learned(service) == 100, service)
        secured.send(topic, *events(50, seed=3))
        wait_until(lambda: learned(service) == 150, service)

    assert service.failure is None


def test_dead_letters_that_may_not_be_written_end_the_service(
    secured: Secured, make_settings: Callable[..., Settings]
) -> None:
    topic = secured.topic()
    secured.send(topic, b"poison")
    secured.leave_to_others(ResourceType.TOPIC, f"{topic}.dlq", AclOperation.WRITE)
    settings = make_settings(
        kafka=as_learner(secured, topic=topic), checkpoint={"every_seconds": 0.1}
    )

    with learning(settings) as service:
        wait_until(lambda: service.failure is not None)

    assert isinstance(service.failure, DeadLetterLost)
    assert "Topic authorization failed" in str(service.failure)


def test_what_the_client_library_says_about_passwords_is_masked(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret, "_hidden", frozenset())
    way = secured.way(
        "OAUTH",
        sasl_mechanism="OAUTHBEARER",
        extra={
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"nonsense={PASSWORD}",
        },
    )

    line = kept_out(secured, way, REFUSED)

    assert "Unrecognized sasl.oauthbearer.config beginning at: **********" in line["error"]


@pytest.mark.parametrize(
    "name", ["password_file", "ssl_ca_file", "ssl_certificate_file", "ssl_key_file"]
)
def test_a_file_that_is_not_there_refuses_to_start(name: str, tmp_path: Path) -> None:
    both = {"ssl_certificate_file": "/dev/null", "ssl_key_file": "/dev/null"}
    pair = both if name in both else {}
    given = pair | {name: str(tmp_path / "nowhere")}

    with pytest.raises(SettingsError) as caught:
        Settings.load(environ={}, kafka={"security_protocol": "SSL", **given})

    assert f"kafka.{name} (LIVETREE_KAFKA__{name.upper()}) is '{tmp_path}" in str(caught.value)
    assert "expected a readable file (No such file or directory)" in str(caught.value)


def test_a_key_of_another_certificate_refuses_to_start(secured: Secured) -> None:
    way = secured.way(
        "MTLS", ssl_certificate_file=secured.client.certificate, ssl_key_file=secured.sealed.key,
        ssl_key_password=KEY_PASSWORD,
    )  # fmt: skip

    with pytest.raises(SettingsError, match=r"kafka \(LIVETREE_KAFKA__\.\.\.\): "):
        KafkaSource(KafkaSettings(**way))
