"""POST /predict, the hot route: raw body in, msgspec both ways, the Snapshot in between.

It is documented like every FastAPI route but does not run through pydantic: at a few microseconds
for the model, the framework would be nearly the whole cost of a request. Predicting only reads a
Snapshot, so it cannot change the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.answer import Answers, Wanted
from app.api.body import Disconnected, read_body, require_json
from app.api.problems import Refused, respond
from app.api.rows import RowReader
from app.api.snapshot import chosen, current, raw_snapshot_headers
from app.errors import AppError, NotServedHere
from app.serving import Published
from app.wiring import Service
from learner import Feature, LearnerError

# Bodies up to here are answered in the event loop itself: a hand-over to a thread costs more than
# the work. A larger one goes to a thread, so that it cannot hold up the probes.
ROWS_IN_LOOP = 1024
PATHS_IN_LOOP = 4  # a path takes as long as many predictions
BYTES_IN_LOOP = 256 * 1024

PATH = "/predict"
TRUTH = {"true": True, "1": True, "false": False, "0": False}
DEFAULT_WANTED = Wanted()


class Reply(NamedTuple):
    """An answer as ASGI has it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send_to(self, send: Send) -> None:
        """Send it whole."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})

    def response(self) -> Response:
        """Return it as the framework wants it."""
        made = Response(self.body, self.status)
        made.raw_headers = self.headers
        return made


class Made(NamedTuple):
    """A reader and what it was made for."""

    features: Sequence[Feature]
    reader: RowReader


class PredictRoute:
    """Answers POST /predict for one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        model = service.settings.name
        self._answered = service.metrics.predictions.labels(model, "answered")
        self._refused = service.metrics.predictions.labels(model, "refused")
        self._body_limit_bytes = service.settings.http.body_limit_bytes
        self._max_rows = service.settings.http.max_rows
        self._elsewhere = service.settings.role == "learner"
        self._reader = Made((), RowReader((), self._max_rows))

    async def reply(self, scope: Scope, receive: Receive) -> Reply:
        """Return the answer to one request, be it a problem; count the rows it predicted."""
        try:
            body, rows, published = await self.answer(scope, receive)
        except Disconnected:
            return Reply(499, [], b"")
        except (Refused, AppError, LearnerError) as exc:
            self._refused.inc()
            problem = respond(exc)
            return Reply(problem.status_code, problem.raw_headers, bytes(problem.body))
        self._answered.inc(rows)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            *raw_snapshot_headers(published),
        ]
        return Reply(200, headers, body)

    async def answer(self, scope: Scope, receive: Receive) -> tuple[bytes, int, Published]:
        """Return the JSON answer, its number of rows and what answered; raise a problem."""
        if self._elsewhere:
            raise NotServedHere(
                "this process has the role 'learner' and answers no predictions; ask one of the "
                "role 'api', or 'all'"
            )
        wanted = parse_query(scope["query_string"])
        require_json(scope)
        raw = await read_body(scope, receive, self._body_limit_bytes)
        at = wanted.at
        published = current(self._service) if at is None else chosen(self._service, at)
        if is_quick(raw, wanted):
            body, rows = self._work(published, raw, wanted)
        else:
            body, rows = await asyncio.to_thread(self._work, published, raw, wanted)
        return body, rows, published

    def _work(self, published: Published, raw: bytes, wanted: Wanted) -> tuple[bytes, int]:
        asked = self._reader_for(published.snapshot.schema.features).read(raw)
        return answers_of(published).answer(asked, wanted), len(asked)

    def _reader_for(self, features: Sequence[Feature]) -> RowReader:
        """Return the reader for these features; values that were learned since change nothing."""
        made = self._reader
        if made.features is not features:
            columns = [(feature.name, feature.kind) for feature in features]
            same = columns == [(feature.name, feature.kind) for feature in made.features]
            reader = made.reader if same else RowReader(features, self._max_rows)
            made = self._reader = Made(features, reader)  # at once: threads come by too
        return made.reader


def answers_of(published: Published) -> Answers:
    """Return what answers from a snapshot; the snapshot takes it along when it goes."""
    found = published.kept.get(Answers)
    if found is None:
        found = published.kept[Answers] = Answers(published.snapshot)
    return found


def is_quick(raw: bytes, wanted: Wanted) -> bool:
    """Whether a body is answered before anybody notices; every row in it is an object."""
    rows = PATHS_IN_LOOP if wanted.path else ROWS_IN_LOOP
    return len(raw) <= BYTES_IN_LOOP and raw.count(b"{") <= rows + 1


def parse_query(query: bytes) -> Wanted:
    """Read path=, probabilities= and at=; other parameters are ignored."""
    if not query:
        return DEFAULT_WANTED
    given = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    flags: dict[str, bool] = {}
    for name in ("probabilities", "path"):
        if name not in given:
            continue
        if given[name].lower() not in TRUTH:
            detail = f"query parameter '{name}' is '{given[name]}'; expected true or false"
            raise Refused(422, detail, field=name)
        flags[name] = TRUTH[given[name].lower()]
    return Wanted(**flags, at=given.get("at"))
