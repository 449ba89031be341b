"""What every group of settings is: frozen, described, without unknown keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Group(BaseModel):
    """Settings that belong together."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        # A fault may be in a secret; our own lines say which values may be shown.
        hide_input_in_errors=True,
    )
