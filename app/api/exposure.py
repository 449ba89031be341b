"""What an operator should know about an address that others can reach."""

from __future__ import annotations

import ipaddress

from app.log import get_logger
from app.settings import Settings

log = get_logger("app.server")

NO_KEY = (
    "anyone who can reach this address can read the model and use the API: no key is asked for. "
    "Set auth.keys_file (LIVETREE_AUTH__KEYS_FILE) or auth.keys, or listen on 127.0.0.1"
)
CLEAR_TEXT = (
    "API keys cross the network readable for everybody on the way: this address has no TLS. "
    "Set tls.certificate_file and tls.key_file, unless a proxy in front of it speaks TLS and "
    "nobody else can reach it"
)


def warn_if_exposed(settings: Settings, address: str) -> None:
    """Warn of an API without keys, and of keys without TLS, beyond this machine."""
    if ipaddress.ip_address(address.partition("%")[0]).is_loopback:
        return
    if settings.tls.client_ca_file is None and not settings.auth.enabled:
        log.warning(NO_KEY, host=address)
    if settings.auth.enabled and not settings.tls.enabled:
        log.warning(CLEAR_TEXT, host=address)
