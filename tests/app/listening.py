"""The API of a service on a real socket, for clients that are not ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import uvicorn

from app.api import create_app
from app.api.protocol import BoundedProtocol
from app.api.server import bind
from tests.app.fake_service import FakeService

DEADLINE_SECONDS = 60


def listening(service: FakeService) -> AbstractContextManager[str]:
    """Serve in a thread; gives host and port."""
    return answering(create_app(service))  # type: ignore[arg-type]


@contextmanager
def answering(app: Any) -> Iterator[str]:
    """The same for any application."""
    listener = bind("127.0.0.1", 0)
    config = uvicorn.Config(app, http=BoundedProtocol, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE_SECONDS)
        listener.close()
