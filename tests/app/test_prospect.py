"""Why not yet, in JSON and in words."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from app.prospect import explanation, prospect_document
from learner import Option, Prospect

WAITING = Prospect(
    12480, 2, "age > 39.5", 1480.0, {"A": 410.0, "B": 1370.0}, "waiting",
    Option("salary <= 51200", 0.061), Option("age <= 58.2", 0.022), 0.039, 0.0, 0.0738, 0.05,
    1744.0, 120.0,
)  # fmt: skip


def test_a_waiting_leaf_says_what_it_waits_for() -> None:
    assert explanation(WAITING) == (
        "Not yet: 'salary <= 51200' leads 'age <= 58.2' by 0.039, the bound is 0.0738, a tie below "
        "0.05. At the present gap it splits after about 1,744 more events, as a tie. The next "
        "attempt comes after 120 events here."
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"status": "ready", "weight_needed": 0.0}, "The test passes: 'salary <= 51200' leads"),
        ({"tie": 0.01}, "it splits after about 1,744 more events. The next"),
        ({"second": Option(None, 0.0)}, "leads not splitting by 0.039"),
        ({"second": None, "gap": math.inf}, "leads nothing else, the bound is"),
        ({"weight_needed": None}, "At the present gap no number of events is enough."),
        ({"next_attempt_in": None}, "It is followed event by event"),
        ({"status": "useless"}, "No test is better than not splitting. The next attempt"),
        ({"status": "pure"}, "are of one class"),
        ({"status": "empty"}, "has not counted an event yet"),
        ({"status": "queued"}, "waits in the queue for memory"),
        ({"status": "done"}, "The leaf is done"),
        ({"status": "inactive"}, "lost its statistics to the memory bound"),
    ],
)
def test_every_status_has_its_words(changed: dict[str, Any], words: str) -> None:
    assert words in explanation(WAITING._replace(**changed))


def test_the_document_is_json_whatever_the_numbers_are() -> None:
    odd = WAITING._replace(second=None, gap=math.inf, weight_needed=None, distribution={7: 1.0})

    found = json.loads(json.dumps(prospect_document(odd, "vfdt-12480"), allow_nan=False))

    assert (found["snapshot"], found["leaf"], found["status"]) == ("vfdt-12480", 2, "waiting")
    assert (found["second"], found["gap"], found["events_needed"]) == (None, None, None)
    assert found["best"] == {"test": "salary <= 51200", "merit": 0.061}
    assert found["distribution"] == [{"label": 7, "weight": 1.0}]
