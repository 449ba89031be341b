"""The HTTP API: routes by noun over one Service. Handlers only read a Snapshot."""

from __future__ import annotations

from app.api.application import create_app

__all__ = ["create_app"]
