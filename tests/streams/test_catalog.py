"""Names, options and their errors."""

from __future__ import annotations

import numpy as np
import pytest

from streams import STREAMS, BadOption, UnknownStream, open_stream


def test_the_papers_names_are_there() -> None:
    named = "sea sea_g led led_g agrawal agr_g rtg dense rbf waveform21 waveform40 tweets"
    assert set(STREAMS) == set(named.split())


@pytest.mark.parametrize("name", list(STREAMS))
def test_a_summary_is_one_short_line(name: str) -> None:
    info = STREAMS[name]
    assert info.name == name
    assert 10 < len(info.summary) <= 80
    assert "\n" not in info.summary
    assert all(option.meaning for option in info.options)


def test_an_opened_stream_has_the_name_it_was_opened_by() -> None:
    assert open_stream("dense").name == "dense"
    assert open_stream("led_g").name == "led_g"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownStream, match="stream is 'see'; expected one of sea, sea_g, led"):
        open_stream("see")


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(
        BadOption,
        match="stream 'sea' has no option 'noize'; expected one of seed, function, noise, balance",
    ):
        open_stream("sea", noize=0.1)


@pytest.mark.parametrize(
    ("stream", "option", "value", "expectation"),
    [
        ("sea", "function", 5, "is 5; expected an integer from 1 to 4"),
        ("sea", "function", 1.5, "is 1.5; expected an integer from 1 to 4"),
        ("sea", "function", True, "is True; expected an integer from 1 to 4"),
        ("sea", "noise", 10, "is 10; expected a number in steps of 0.01 from 0 to 1"),
        ("sea", "noise", 0.105, "is 0.105; expected a number in steps of 0.01 from 0 to 1"),
        ("sea", "noise", "some", "is 'some'; expected a number"),
        ("sea", "noise", float("nan"), "is nan; expected a number"),
        ("sea", "noise", None, "is None; expected a number"),
        ("sea", "balance", 1, "is 1; expected true or false"),
        ("agrawal", "function", 0, "is 0; expected an integer from 1 to 10"),
        ("led_g", "width", 0, "is 0; expected an integer, 1 or more"),
        ("rtg", "tree_seed", "x", "is 'x'; expected an integer"),
        ("waveform21", "seed", 1.5, "is 1.5; expected an integer"),
    ],
)
def test_a_bad_value_is_named_with_what_was_expected(
    stream: str, option: str, value: object, expectation: str
) -> None:
    with pytest.raises(BadOption) as caught:
        open_stream(stream, **{option: value})  # type: ignore[arg-type]
    assert f"option '{option}' of stream '{stream}' {expectation}" in str(caught.value)


def test_texts_are_read_as_the_option_s_type() -> None:
    texts = open_stream("sea", function="2", noise="0.2", balance="true").take(50)
    values = open_stream("sea", function=2, noise=0.2, balance=True).take(50)
    assert np.array_equal(texts[0].numeric, values[0].numeric)
    assert np.array_equal(texts[1], values[1])


def test_a_tree_that_runs_out_of_attributes_is_refused() -> None:
    with pytest.raises(BadOption, match="are 3 and 0; expected at least 5 nominal"):
        open_stream("rtg", nominal=3, numeric=0)


def test_a_tree_too_big_to_build_is_refused() -> None:
    with pytest.raises(BadOption, match="more than 1000000 nodes; expected a smaller 'depth'"):
        open_stream("rtg", nominal=20, numeric=0, values=1000, depth=3)
