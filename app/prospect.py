"""How far a leaf is from a split, as JSON and in one sentence. Pure."""

from __future__ import annotations

import math

from learner import Option, Prospect


def prospect_document(prospect: Prospect, snapshot_id: str) -> dict[str, object]:
    """Return what GET /leaves/{id} answers; what is no number is null."""
    return {
        "snapshot": snapshot_id,
        "leaf": prospect.leaf,
        "branch": prospect.branch,
        "n": prospect.n,
        "distribution": [
            {"label": label, "weight": weight} for label, weight in prospect.distribution.items()
        ],
        "status": prospect.status,
        "best": _option(prospect.best),
        "second": _option(prospect.second),
        "gap": _finite(prospect.gap),
        "bias": prospect.bias,
        "bound": _finite(prospect.bound),
        "tie": prospect.tie,
        "events_needed": prospect.weight_needed,
        "next_attempt_in": prospect.next_attempt_in,
        "explanation": explanation(prospect),
    }


def _option(option: Option | None) -> dict[str, object] | None:
    return None if option is None else option._asdict()


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


REASONS = {
    "pure": "All events that the leaf has counted are of one class: nothing is to be told apart.",
    "empty": "The leaf has not counted an event yet.",
    "queued": "The leaf waits in the queue for memory, and counts nothing but classes until then.",
    "done": "The leaf is done: it is pure enough, too deep or hardly reached, and gathers nothing.",
    "inactive": "The leaf lost its statistics to the memory bound: others err more.",
}


def explanation(prospect: Prospect) -> str:
    """Return why the leaf has not split yet, in a few words."""
    if prospect.status in REASONS:
        return REASONS[prospect.status]
    if prospect.status == "useless":
        return f"No test is better than not splitting.{_attempt_words(prospect)}"
    lead = _lead_words(prospect)
    if prospect.status == "ready":
        passes = f"The test passes: {lead}. The leaf splits at its next attempt."
        return passes + _attempt_words(prospect)
    if prospect.weight_needed is None:
        ahead = "At the present gap no number of events is enough."
    else:
        tie = ", as a tie" if (prospect.gap or 0.0) - prospect.bias < prospect.tie else ""
        more = f"{prospect.weight_needed:,.0f} more events"
        ahead = f"At the present gap it splits after about {more}{tie}."
    return f"Not yet: {lead}. {ahead}{_attempt_words(prospect)}"


def _lead_words(prospect: Prospect) -> str:
    assert prospect.best is not None
    assert prospect.bound is not None
    if prospect.second is None:
        rival = "nothing else"
    else:
        rival = f"'{prospect.second.test}'" if prospect.second.test else "not splitting"
    gap = "" if _finite(prospect.gap) is None else f" by {prospect.gap:.4g}"
    needed = f"the bound is {prospect.bound:.4g}, a tie below {prospect.tie:.4g}"
    return f"'{prospect.best.test}' leads {rival}{gap}, {needed}"


def _attempt_words(prospect: Prospect) -> str:
    if prospect.next_attempt_in is None:
        return " It is followed event by event, and tried as soon as that can succeed."
    return f" The next attempt comes after {prospect.next_attempt_in:,.0f} events here."
