"""HTTPS: the server's certificate, and where asked for, certificates of clients (mTLS)."""

from __future__ import annotations

import ssl
from pathlib import Path

from app.api_settings import TlsSettings
from app.errors import SettingsError
from app.secret import hide
from app.settings_file import variable_of


def server_context(settings: TlsSettings) -> ssl.SSLContext | None:
    """Return what connections are encrypted with, None for plain HTTP; raises SettingsError."""
    if settings.certificate_file is None:
        return None
    problems = [
        f"{_place(name, path)} a readable file ({reason})"
        for name in ("certificate_file", "key_file", "client_ca_file")
        if (path := getattr(settings, name)) is not None
        and (reason := _unreadable(path)) is not None
    ]
    if problems:
        raise SettingsError(problems)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, settings, settings.certificate_file)
    if settings.client_ca_file is not None:
        _require_clients(context, settings.client_ca_file)
    return context


def _load_certificate(
    context: ssl.SSLContext, settings: TlsSettings, certificate_file: Path
) -> None:
    password = settings.key_password.get_secret_value() if settings.key_password else None
    hide(password)
    asked = False

    def tell_password() -> str:
        # Without this function OpenSSL would ask at the terminal, and wait.
        nonlocal asked
        asked = True
        return password or ""

    key_file = settings.key_file or certificate_file
    name = "key_file" if settings.key_file else "certificate_file"
    try:
        context.load_cert_chain(certificate_file, key_file, tell_password)
    except ssl.SSLError as exc:
        if exc.reason == "KEY_VALUES_MISMATCH":
            fault = f"{_place(name, key_file)} the key of the certificate in '{certificate_file}'"
        elif asked and password is None:
            fault = (
                f"{_place(name, key_file)} its password in tls.key_password, for it is encrypted"
            )
        elif asked:
            fault = f"tls.key_password ({_variable('key_password')}) does not open '{key_file}'"
        elif not _has_certificates(certificate_file):
            fault = f"{_place('certificate_file', certificate_file)} a certificate in PEM"
        else:
            fault = f"{_place(name, key_file)} a private key in PEM"
        raise SettingsError([fault]) from exc


def _require_clients(context: ssl.SSLContext, authorities: Path) -> None:
    try:
        context.load_verify_locations(authorities)
    except ssl.SSLError as exc:
        place = _place("client_ca_file", authorities)
        raise SettingsError([f"{place} certificates in PEM"]) from exc
    context.verify_mode = ssl.CERT_REQUIRED


def _has_certificates(path: Path) -> bool:
    try:
        ssl.create_default_context(cafile=str(path))
    except ssl.SSLError:
        return False
    return True


def _unreadable(path: Path) -> str | None:
    try:
        path.open("rb").close()
    except OSError as exc:
        return exc.strerror or str(exc)
    return None


def _place(name: str, path: Path) -> str:
    return f"tls.{name} ({_variable(name)}) is '{path}'; expected"


def _variable(name: str) -> str:
    return variable_of(("tls", name))
