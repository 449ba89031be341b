"""All streams by name: one table, and the function that opens an entry of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streams.agrawal import Agrawal
from streams.drift import ConceptDrift
from streams.errors import BadOption, UnknownStream
from streams.led import Led
from streams.option import Option, OptionValue
from streams.random_rbf import RandomRbf
from streams.random_tree import RandomTree
from streams.sea import Sea
from streams.stream import Stream
from streams.tweets import Tweets
from streams.waveform import Waveform


@dataclass(frozen=True)
class StreamInfo:
    """A line of the catalogue: what the stream is, what can be set, how it is built."""

    name: str
    summary: str
    options: tuple[Option, ...]
    build: Callable[..., Stream]


def open_stream(name: str, seed: int = 1, **options: object) -> Stream:
    """The stream of this name from its first row on.

    >>> open_stream("sea", noise=0.0).events(1)[0]["label"]
    'B'
    """
    info = STREAMS.get(name)
    if info is None:
        raise UnknownStream(f"stream is '{name}'; expected one of {', '.join(STREAMS)}")
    stream = info.build(seed=_SEED.checked(name, seed), **_checked(info, options))
    stream.name = name
    return stream


def _checked(info: StreamInfo, options: dict[str, object]) -> dict[str, OptionValue]:
    known = {option.name: option for option in info.options}
    for name in options:
        if name not in known:
            names = ", ".join(["seed", *known])
            raise BadOption(f"stream '{info.name}' has no option '{name}'; expected one of {names}")
    return {name: known[name].checked(info.name, value) for name, value in options.items()} | {
        name: option.default for name, option in known.items() if name not in options
    }


def _led_g(seed: int, position: int, width: int) -> Stream:
    """LED with 1, then 3, 5 and 7 segments moved."""
    return _nested([Led(seed, drift=drift) for drift in (1, 3, 5, 7)], seed, position, width)


def _agr_g(seed: int, position: int, width: int) -> Stream:
    """AGRAWAL rules 1, 2, 1 and 4: the published command leaves the third at its default."""
    rules = [Agrawal(seed, function=function, balance=True) for function in (1, 2, 1, 4)]
    return _nested(rules, seed, position, width)


def _nested(streams: Sequence[Stream], seed: int, position: int, width: int) -> Stream:
    """The first stream drifts to the rest; the rest counts only its own rows, so does its drift."""
    if len(streams) == 1:
        return streams[0]
    rest = _nested(streams[1:], seed, position, width)
    return ConceptDrift(streams[0], rest, position=position, width=width, seed=seed)


def _sea_g(seed: int, noise: float) -> Stream:
    return Sea(seed, noise=noise, balance=True)


def _dense(seed: int, attributes: int, **concept: int) -> Stream:
    return RandomTree(seed, classes=2, nominal=attributes, numeric=attributes, **concept)


def _waveform21(seed: int) -> Stream:
    return Waveform(seed)


def _waveform40(seed: int) -> Stream:
    return Waveform(seed, idle=True)


_SEED = Option("seed", 1, "of the rows")
_NOISE = Option("noise", 0.1, "share of wrong values, in whole percents", 0, 1, whole_percent=True)
_BALANCE = Option("balance", False, "let the classes alternate")
_TREE_SEED = Option("tree_seed", 1, "of the labelling tree")
_DEPTH = Option("depth", 5, "of the labelling tree", 1, 12)
_VALUES = Option("values", 5, "of each nominal attribute", 2, 1000)


def _drift_options(position: int, width: int) -> tuple[Option, ...]:
    return (
        Option("position", position, "rows of a concept before the next one", 1),
        Option("width", width, "rows over which a change takes place", 1),
    )


_ALL = (
    StreamInfo(
        "sea",
        "3 numbers, 2 classes: do the first two add up to a threshold (4 concepts)",
        (Option("function", 1, "which concept", 1, 4), _NOISE, _BALANCE),
        Sea,
    ),
    StreamInfo("sea_g", "sea with concept 1 and alternating classes, no drift", (_NOISE,), _sea_g),
    StreamInfo(
        "led",
        "24 lights, 10 classes: which digit does the display show",
        (_NOISE, Option("drift", 0, "segments that changed places with idle lights", 0, 7)),
        Led,
    ),
    StreamInfo(
        "led_g",
        "led with four concepts, one fading into the next",
        _drift_options(250_000, 50_000),
        _led_g,
    ),
    StreamInfo(
        "agrawal",
        "9 mixed features, 2 classes: loan applicants and ten rules",
        (
            Option("function", 1, "which rule", 1, 10),
            Option("perturbation", 0.05, "noise in the numbers, fraction of their range", 0, 1),
            _BALANCE,
        ),
        Agrawal,
    ),
    StreamInfo(
        "agr_g",
        "agrawal with four concepts, one following the other quickly",
        _drift_options(2_500_000, 500),
        _agr_g,
    ),
    StreamInfo(
        "rtg",
        "200 nominal and 200 numeric features, 25 classes: a random tree",
        (
            Option("classes", 25, "number of classes", 2, 1000),
            Option("nominal", 200, "nominal features", 0, 100_000),
            Option("numeric", 200, "numeric features", 0, 100_000),
            _VALUES,
            _DEPTH,
            Option("first_leaf", 3, "first level of the tree that can have leaves", 0, 12),
            Option("leaf_fraction", 0.15, "share of leaves from that level on", 0, 1),
            _TREE_SEED,
        ),
        RandomTree,
    ),
    StreamInfo(
        "dense",
        "m nominal and m numeric features, 2 classes: a random tree",
        (
            Option("attributes", 10, "m, the features of each kind", 1, 100_000),
            _TREE_SEED,
            _DEPTH,
            _VALUES,
        ),
        _dense,
    ),
    StreamInfo(
        "rbf",
        "200 numbers, 15 classes: clouds around 100 random centroids",
        (
            Option("classes", 15, "number of classes", 2, 1000),
            Option("attributes", 200, "numeric features", 1, 100_000),
            Option("centroids", 100, "number of clouds", 1, 100_000),
            Option("centroid_seed", 1, "of the centroids"),
        ),
        RandomRbf,
    ),
    StreamInfo("waveform21", "21 numbers, 3 classes: noisy mixed waves", (), _waveform21),
    StreamInfo("waveform40", "waveform21 and 19 numbers of pure noise", (), _waveform40),
    StreamInfo(
        "tweets",
        "sets of words, 2 classes: is the tweet positive or negative",
        (Option("words", 1000, "size of the vocabulary", 100, 1_000_000),),
        Tweets,
    ),
)

STREAMS: dict[str, StreamInfo] = {info.name: info for info in _ALL}
"""Every stream, by the name that the papers and the command line use."""
