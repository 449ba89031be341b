"""Certificates of a test's own: authorities, servers, clients, as files."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Authority:
    """One authority; its certificate is the file `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self._folder = folder
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, password: str | None = None) -> Issued:
        """Return a certificate for a host, an address or a person."""
        return Issued(self._authority.issue_cert(name), self._folder / name, password)


class Issued:
    """A certificate and its key: in two files, and in one as Java reads them."""

    def __init__(self, leaf: trustme.LeafCert, at: Path, password: str | None) -> None:
        chain = b"".join(part.bytes() for part in leaf.cert_chain_pems)
        key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
        sealed = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed)
        self.certificate = at.with_name(f"{at.name}.pem")
        self.key = at.with_name(f"{at.name}.key")
        self.both = at.with_name(f"{at.name}.both.pem")
        self.certificate.write_bytes(chain)
        self.key.write_bytes(secret)
        self.both.write_bytes(secret + chain)
