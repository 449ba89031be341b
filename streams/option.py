"""Options of a stream: name, default, range, and a check that explains itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streams.errors import BadOption

OptionValue = bool | int | float


@dataclass(frozen=True)
class Option:
    """One option; the type of its default is its type."""

    name: str
    default: OptionValue
    meaning: str
    low: float = -math.inf
    high: float = math.inf
    whole_percent: bool = False

    def checked(self, stream: str, value: object) -> OptionValue:
        """The value in the option's type (texts are read); BadOption if it does not fit."""
        number = _read(self.default, value)
        if number is None or not self.low <= number <= self.high or not self._is_step(number):
            raise BadOption(
                f"option '{self.name}' of stream '{stream}' is {value!r}; "
                f"expected {self.expectation()}"
            )
        return number

    def expectation(self) -> str:
        """What a value must be, in words."""
        if isinstance(self.default, bool):
            return "true or false"
        noun = "an integer" if isinstance(self.default, int) else "a number"
        if self.whole_percent:
            noun = "a number in steps of 0.01"
        if self.high < math.inf:
            return f"{noun} from {self.low:g} to {self.high:g}"
        return noun if self.low == -math.inf else f"{noun}, {self.low:g} or more"

    def _is_step(self, number: OptionValue) -> bool:
        return not self.whole_percent or abs(100 * number - round(100 * number)) < 1e-9


def _read(default: OptionValue, value: object) -> OptionValue | None:
    """The value as a bool, int or float like the default; None when it is none of that."""
    if isinstance(default, bool):
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.strip().lower())
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    if isinstance(default, float):
        return number
    if isinstance(value, int):
        return value
    return int(number) if number.is_integer() else None
