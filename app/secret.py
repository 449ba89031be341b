"""What must never be shown: which names hold secrets, and texts without the secrets in them.

Values that are secret by their name are masked where they are shown. That is not enough for texts
of others, such as the lines of the Kafka client: whoever takes a secret out of its wrapping hands
it to `hide`, and `masked` takes it out of any text from then on. All log lines and all errors on
the command line go through it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

MASK = "**********"

# Words in the name of a setting or of a librdkafka property that holds a secret ...
SECRET_WORDS = (
    "password", "passphrase", "secret", "key", "token", "pem", "jaas", "credential", "assertion",
    "oauthbearer.config", "kinit.cmd",
)  # fmt: skip
# ... and endings of names that hold only a place, or the name of a method.
HARMLESS_ENDINGS = (".location", "_file", ".algorithm", ".method")

# A shorter secret is no rare text: to take it out everywhere would garble lines, and betray it.
SHORTEST_HIDDEN = 8

_hidden: frozenset[str] = frozenset()


def names_secret(name: str) -> bool:
    """Return whether a setting or property of this name holds a secret."""
    lower = name.lower()
    return any(word in lower for word in SECRET_WORDS) and not lower.endswith(HARMLESS_ENDINGS)


def shown(name: str, value: object) -> object:
    """Return a value of this name as it may be shown: a secret not at all, wherever it is."""
    if names_secret(name):
        return MASK
    if isinstance(value, Mapping):
        return {key: shown(str(key), inner) for key, inner in value.items()}
    in_address = isinstance(value, str) and "://" in value and "@" in value
    return MASK if in_address else value


def hide(*secrets: str | None) -> None:
    """Keep these out of every text that is masked from now on, also where only a part is shown."""
    global _hidden
    pieces = {piece for secret in secrets if secret for piece in (secret, *secret.split())}
    forms = {
        form for piece in pieces for form in (piece, json.dumps(piece)[1:-1], repr(piece)[1:-1])
    }
    _hidden = _hidden | {form for form in forms if _is_rare(form)}


def _is_rare(text: str) -> bool:
    """Tell secrets from common words, and from the first and last line of a PEM."""
    pem_border = text.startswith("-----") != text.endswith("-----")
    return len(text) >= SHORTEST_HIDDEN and not pem_border


def masked(text: str) -> str:
    """Return the text without the secrets that are hidden."""
    # The longest first: one secret may be a part of another.
    for secret in sorted(_hidden, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, MASK)
    return text
