"""No output of a failing or running service holds a secret."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app import log, secret
from app.connection import Connection, refused
from app.errors import SettingsError
from app.kafka_source import KafkaSource
from app.registry import Registry
from app.secret import MASK, hide, masked, names_secret
from app.settings import KafkaSettings, RegistrySettings, Settings

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 300
CANARY = "canary-7f3a9c51e2"
SECRET_PROPERTIES = (
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.kerberos.kinit.cmd",
)


@pytest.fixture(autouse=True)
def _nothing_hidden_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secret, "_hidden", frozenset())
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)


def problems_of(*arguments: Any, **more: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        Settings.load(*arguments, **more)
    return "\n".join([*caught.value.problems, str(caught.value), repr(caught.value)])


@pytest.mark.parametrize("name", SECRET_PROPERTIES)
def test_a_property_with_a_secret_is_known_by_its_name(name: str) -> None:
    settings = Settings.load(environ={}, kafka={"extra": {name: CANARY, "client.rack": "r1"}})

    shown = settings.shown()
    assert shown[f"kafka.extra.{name}"] == MASK
    assert shown["kafka.extra.client.rack"] == "r1"
    assert CANARY not in f"{shown} {settings!r} {settings} {settings.kafka!r}"
    assert settings.kafka.client_properties()[name] == CANARY
    assert masked(f"so {CANARY}") == f"so {MASK}"


@pytest.mark.parametrize(
    "name",
    ["ssl.ca.location", "ssl.key.location", "ssl.endpoint.identification.algorithm",
     "sasl.oauthbearer.method", "client.id", "sasl.username", "password_file"],
)  # fmt: skip
def test_a_property_without_a_secret_is_shown(name: str) -> None:
    assert not names_secret(name)


def test_every_secret_setting_is_masked_wherever_settings_are_shown() -> None:
    environ = {
        "LIVETREE_AUTH__KEYS": f"{CANARY}-one,{CANARY}-two",
        "LIVETREE_TLS__CERTIFICATE_FILE": "cert.pem",
        "LIVETREE_TLS__KEY_PASSWORD": CANARY,
        "LIVETREE_KAFKA__PASSWORD": CANARY,
        "LIVETREE_KAFKA__SSL_KEY_PASSWORD": CANARY,
    }

    settings = Settings.load(environ=environ)

    dumped = f"{settings.model_dump()} {settings.model_dump_json()} {settings.shown()}"
    assert CANARY not in f"{dumped} {settings!r} {settings}"
    assert settings.shown()["auth.keys"] == [MASK, MASK]


@pytest.mark.parametrize(
    "environ",
    [
        {"LIVETREE_KAFKA__EXTRA": f'{{"sasl.password": "{CANARY}"'},
        {"LIVETREE_KAFKA__EXTRA": f'{{"sasl.password": ["{CANARY}"]}}'},
        {"LIVETREE_KAFKA__EXTRA": f'{{"group.id": "x", "ssl.key.pem": "{CANARY}"}}'},
        {"LIVETREE_KAFKA__EXTRA": f'["{CANARY}"]'},
        {"LIVETREE_KAFKA__EXTRA": f"sasl.password={CANARY}"},
        {"LIVETREE_KAFKA__EXTRA__SSL": CANARY, "LIVETREE_KAFKA__START": "never"},
        {"LIVETREE_KAFKA": f"password={CANARY}"},
        {"LIVETREE_KAFKA__PASWORD": CANARY},
        {"LIVETREE_KAFKA__PASSWORD__VALUE": CANARY},
        {"LIVETREE_KAFKA__PASSWORD": CANARY, "LIVETREE_KAFKA__PASSWORD_FILE": "also"},
        {"LIVETREE_KAFKA__SSL_KEY_PASSWORD": CANARY, "LIVETREE_KAFKA__SSL_KEY_FILE": "k.pem"},
        {"LIVETREE_TLS__KEY_PASSWORD": CANARY},
        {"LIVETREE_EVENT__REGISTRY__URL": f"ftp://me:{CANARY}@host"},
        {"LIVETREE_EVENT__REGISTRY__TOKEN__X": CANARY},
        {"LIVETREE_EVENT__REGISTRY": CANARY},
        {"LIVETREE_AUTH": CANARY},
        {"LIVETREE_AUTH__KEYS": f"{CANARY},{CANARY}"},
        {"LIVETREE_AUTH__KEYS": f'["{CANARY}", 1]'},
        {"LIVETREE_AUTH__KEYS": f'["{CANARY}"'},
        {"LIVETREE_AUTH__KEYS__0": CANARY},
    ],
    ids=str,
)
def test_a_wrong_variable_does_not_betray_it(environ: dict[str, str]) -> None:
    assert CANARY not in problems_of(environ=environ)


@pytest.mark.parametrize(
    "content",
    [
        f"kafka:\n  password: {CANARY}\n bad\n",
        f"kafka:\n  password: *{CANARY}\n",
        f"kafka:\n  password: !{CANARY} x\n",
        f"kafka:\n  password: '{CANARY}\n",
        f'kafka:\n  password: "{CANARY}\\q"\n',
        f"kafka: {{password: {CANARY}\n",
        f"kafka:\n  password: {CANARY}: x\n",
        f"kafka:\n\tpassword: {CANARY}\n",
        f"kafka:\n  password: [{CANARY}]\n",
        f"kafka:\n  password: {{value: {CANARY}}}\n",
        f"kafka: password {CANARY}\n",
        f"kafka: [password, {CANARY}]\n",
        f"kafka:\n  extra: sasl.password {CANARY}\n",
        f"kafka:\n  extra:\n    sasl.password: [{CANARY}]\n",
        f"kafka:\n  extra:\n    group.id: mine\n    ssl.keystore.password: {CANARY}\n",
        f"kafka:\n  security_protocol: SASL\n  password: {CANARY}\n",
        f"LIVETREE_KAFKA__PASSWORD={CANARY}\n",
        f"- {CANARY}\n",
        f"auth:\n  keys: {{a: {CANARY}}}\n",
        f"auth:\n  keys:\n  - {CANARY}\n  - {CANARY}\n",
        f"auth:\n  keys:\n  - [{CANARY}]\n",
        f"tls: {CANARY}\n",
    ],
    ids=lambda content: content.replace(CANARY, "..."),
)
def test_a_wrong_file_does_not_betray_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text(content)

    said = problems_of(file, environ={})

    assert CANARY not in said
    assert CANARY[:8] not in said


def test_a_wrong_file_says_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "livetree.yaml"
    file.write_text("kafka:\n  password: *nothing\n")

    assert "(found undefined alias '...' in line 2, column 13)" in problems_of(file, environ={})


@pytest.mark.parametrize(
    "content",
    [
        f"LIVETREE_KAFKA__PASSWORD {CANARY}\nLIVETREE_NAME=a b\n".encode(),
        f"LIVETREE_KAFKA__PASSWORD='{CANARY}\nLIVETREE_NAME=a b\n".encode(),
        f"LIVETREE_KAFKA__PASWORD={CANARY}\n".encode(),
        f"LIVETREE_KAFKA__PASSWORD={CANARY}\xff\n".encode("latin-1"),
        None,
    ],
    ids=["no sign", "no quote", "no setting", "not text", "a folder"],
)
def test_a_wrong_dotenv_file_does_not_betray_it(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    log.configure("debug", "json", out)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIVETREE_LOG_LEVEL", "loud")
    if content is None:
        (tmp_path / ".env").mkdir()
    else:
        (tmp_path / ".env").write_bytes(content)

    assert CANARY not in problems_of() + out.getvalue()


@pytest.mark.parametrize(
    "extra",
    [
        {"ssl.key.pem": CANARY, "security.protocol": "SSL"},
        {"sasl.jaas.config": CANARY},
        {"sasl.password": CANARY, "sasl.mechanism": CANARY, "security.protocol": "SASL_SSL"},
        {"ssl.keystore.location": "/no/such/file", "ssl.keystore.password": CANARY,
         "security.protocol": "SSL"},
        {"sasl.oauthbearer.client.secret": CANARY, "sasl.oauthbearer.method": CANARY},
    ],
    ids=str,
)  # fmt: skip
def test_a_client_library_that_refuses_its_properties_does_not_betray_them(
    extra: dict[str, str],
) -> None:
    out = io.StringIO()
    log.configure("debug", "json", out)

    with pytest.raises(SettingsError) as caught:
        KafkaSource(KafkaSettings(extra=extra))

    assert str(caught.value).startswith("kafka (LIVETREE_KAFKA__...): ")
    assert CANARY not in str(caught.value) + out.getvalue()


def test_a_line_of_others_is_masked_also_where_it_shows_only_a_part() -> None:
    pem = f"-----BEGIN PRIVATE KEY-----\n{CANARY}AAAA\n{CANARY}BBBB\n-----END PRIVATE KEY-----"
    quoted = f'{CANARY}"with\\signs'
    Connection(
        KafkaSettings(extra={"ssl.key.pem": pem, "sasl.oauthbearer.config": f"a=b c={CANARY}"})
    ).properties()
    hide(quoted)
    for style in ("json", "console"):
        out = io.StringIO()
        log.configure("debug", style, out)  # type: ignore[arg-type]
        logging.getLogger("librdkafka").error("beginning at: c=%s", CANARY)
        logging.getLogger("librdkafka").error("line: %sBBBB", CANARY)
        log.get_logger("x").warning("whole", value=pem, other={"deep": [quoted]})
        try:
            raise ValueError(quoted)
        except ValueError:
            log.get_logger("x").exception("failed")

        assert CANARY not in out.getvalue()
        assert out.getvalue().count(MASK) >= 5


def test_short_words_are_left_alone_and_longer_secrets_go_first() -> None:
    hide("kafka", "", None, "password-1", "password-1-and-more")

    assert masked("kafka: password-1, password-1-and-more") == f"kafka: {MASK}, {MASK}"


@pytest.mark.parametrize(
    "given", [{"token": CANARY}, {"username": "learner", "password": CANARY}], ids=str
)
def test_what_a_schema_registry_is_told_is_masked(given: dict[str, str]) -> None:
    Registry(RegistrySettings.model_validate({"url": "http://127.0.0.1:1", **given}))

    encoded = base64.b64encode(f"learner:{CANARY}".encode()).decode()
    assert masked(f"the registry says {CANARY}") == f"the registry says {MASK}"
    assert ("password" in given) == (masked(encoded) == MASK)


def test_the_error_of_the_client_is_masked() -> None:
    hide(CANARY)

    class Said:
        def str(self) -> str:
            return f"wrong: {CANARY}"

    assert CANARY not in str(refused(Exception(Said())))  # type: ignore[arg-type]


def started(folder: Path, *options: str, **settings: str) -> subprocess.Popen[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LIVETREE_")}
    with (folder / "out.txt").open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "app", *options],
            env=environment | settings,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
        )


EVERY_SECRET = {
    "PYTHONPATH": str(ROOT),
    "LIVETREE_AUTH__KEYS": f"{CANARY}-of-the-api",
    "LIVETREE_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1",
    "LIVETREE_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "LIVETREE_KAFKA__SASL_MECHANISM": "PLAIN",
    "LIVETREE_KAFKA__USERNAME": "learner",
    "LIVETREE_LOG_FORMAT": "json",
    "LIVETREE_LOG_LEVEL": "debug",
}


def test_a_running_service_that_cannot_reach_its_broker_tells_no_secret(tmp_path: Path) -> None:
    """With everything that the client library can say about itself."""
    (tmp_path / "password").write_text(f"{CANARY}-in-a-file\n")
    extra = {"debug": "all", "sasl.oauthbearer.client.secret": CANARY, "client.id": "me"}
    process = started(
        tmp_path, "serve", "--port", "0", "--host", "0.0.0.0",
        **EVERY_SECRET,
        LIVETREE_KAFKA__PASSWORD_FILE=str(tmp_path / "password"),
        LIVETREE_KAFKA__EXTRA=json.dumps(extra | {"log_level": "7"}),
    )  # fmt: skip
    out = tmp_path / "out.txt"
    answers = []
    try:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while '"broker unreachable, waiting"' not in out.read_text():
            assert process.poll() is None, out.read_text()
            assert time.monotonic() < deadline, out.read_text()
            time.sleep(0.1)
        port = next(
            line["port"]
            for line in map(json.loads, out.read_text().splitlines())
            if line["event"] == "listening"
        )
        for path in ("readyz", "livez", "metrics", "model", "openapi.json", "nothing"):
            for key in ("", f"{CANARY}-of-the-api", f"{CANARY}-of-nobody"):
                request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}")
                request.add_header("x-api-key", key)
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        answers.append(answer.read().decode() + str(answer.headers))
                except urllib.error.HTTPError as exc:
                    with exc:
                        answers.append(exc.read().decode() + str(exc.headers))
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_SECONDS) == 0, out.read_text()
    finally:
        process.kill()
        process.wait()

    said = out.read_text()
    assert len(answers) == 18
    assert CANARY not in said + "".join(answers)
    assert "sasl.password" in said, "the client library did not tell its properties"
    assert '"kafka.extra.sasl.oauthbearer.client.secret": "**********"' in said
    assert "API keys cross the network" in said


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("produce", "--stream", "sea")])
def test_a_service_that_fails_to_start_tells_no_secret(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    extra = {"ssl.key.pem": CANARY, "security.protocol": CANARY}
    process = started(
        tmp_path, *command, **EVERY_SECRET,
        LIVETREE_KAFKA__PASSWORD=CANARY, LIVETREE_KAFKA__EXTRA=json.dumps(extra),
    )  # fmt: skip

    assert process.wait(DEADLINE_SECONDS) in (2, 3)
    said = (tmp_path / "out.txt").read_text()
    assert "Invalid value" in said
    assert CANARY not in said
