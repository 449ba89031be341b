"""The warnings about an address that others can reach."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from app.api.exposure import CLEAR_TEXT, NO_KEY, warn_if_exposed
from app.settings import Settings

KEYS = {"keys": ["a-key-of-this-test-1"]}
TLS = {"certificate_file": "cert.pem"}
MTLS = {"certificate_file": "cert.pem", "client_ca_file": "ca.pem"}


def warnings(address: str, **given: Any) -> list[str]:
    settings = Settings.load(environ={}, **given)
    with structlog.testing.capture_logs() as lines:
        warn_if_exposed(settings, address)
    assert all(line["log_level"] == "warning" for line in lines)
    return [line["event"] for line in lines]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.7", "::1"])
def test_an_address_of_this_machine_alone_is_not_warned_of(address: str) -> None:
    assert warnings(address) == []
    assert warnings(address, auth=KEYS) == []


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.7", "fe80::1%eth0"])
def test_an_address_that_others_reach_is_warned_of(address: str) -> None:
    assert warnings(address) == [NO_KEY]
    assert warnings(address, tls=TLS) == [NO_KEY]
    assert warnings(address, auth=KEYS) == [CLEAR_TEXT]
    assert warnings(address, auth=KEYS, tls=TLS) == []
    assert warnings(address, tls=MTLS) == []


def test_the_words_say_what_to_set_and_think_of_proxies() -> None:
    assert "LIVETREE_AUTH__KEYS_FILE" in NO_KEY
    assert "tls.certificate_file" in CLEAR_TEXT
    assert "proxy" in CLEAR_TEXT
