"""One shape for every line, whoever writes it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from app import log


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_our_lines_are_json_with_time_level_event_and_logger_first() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)

    log.get_logger("app.x").info("checkpoint written", size_bytes=10, folder=io)

    (line,) = lines(out)
    assert list(line)[:4] == ["time", "level", "event", "logger"]
    assert (line["level"], line["event"], line["size_bytes"]) == ("info", "checkpoint written", 10)
    assert datetime.fromisoformat(line["time"]).utcoffset() is not None


def test_lines_of_the_standard_library_and_of_uvicorn_have_the_same_shape() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)

    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    logging.getLogger("librdkafka").warning("FAIL")

    first, second = lines(out)
    assert first["event"] == "Started server process [7]"
    assert (second["logger"], second["level"]) == ("librdkafka", "warning")


def test_an_exception_is_one_line() -> None:
    out = io.StringIO()
    log.configure("info", "json", out)

    try:
        raise KeyError("x")
    except KeyError:
        log.get_logger("app.x").exception("failed")

    (line,) = lines(out)
    assert "KeyError" in line["exception"]


def test_lines_below_the_level_are_left_out() -> None:
    out = io.StringIO()
    log.configure("warning", "json", out)

    log.get_logger("app.x").info("quiet")
    logging.getLogger("other").info("quiet")

    assert out.getvalue() == ""


def test_people_get_text() -> None:
    out = io.StringIO()
    log.configure("info", "console", out)

    log.get_logger("app.x").info("checkpoint written", size_bytes=10)

    assert "checkpoint written" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_a_line_that_repeats_is_written_once_in_a_while() -> None:
    now = [0.0]
    seldom = log.Seldom(10.0, lambda: now[0])

    first, again, other = seldom.due("a"), seldom.due("a"), seldom.due("b")
    now[0] = 10.0

    assert (first, again, other, seldom.due("a")) == (True, False, True, True)


def test_what_librdkafka_repeats_is_written_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("warning", "json")
    library = logging.getLogger("librdkafka")

    for attempt in range(100):
        library.error("FAIL [rdkafka#consumer-1] [thrd:b]: connect failed (attempt %d)", attempt)
    library.error("FAIL [rdkafka#producer-2] [thrd:b]: connect failed")
    library.warning("REQTMOUT [rdkafka#consumer-1] [thrd:b]: timed out")

    said = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(" [thrd")[0] for line in said] == [
        "FAIL [rdkafka#consumer-1]",
        "FAIL [rdkafka#producer-2]",
        "REQTMOUT [rdkafka#consumer-1]",
    ]
