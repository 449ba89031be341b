"""Labelled events from files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from app.errors import SettingsError
from app.feed import FileFeed
from learner import Kind

CSV = """age,car,code,class
31,small,1,yes
?,large,2,no
44.5,,3,yes
"""


def write(path: Path, text: str) -> Path:
    """Write a text file and return its path."""
    path.write_text(text)
    return path


def test_a_csv_has_numbers_categories_and_missing_values(tmp_path: Path) -> None:
    feed = FileFeed(write(tmp_path / "data.csv", CSV))

    kinds = {feature.name: feature.kind for feature in feed.schema.features}
    assert kinds == {"age": Kind.NUMERIC, "car": Kind.NOMINAL, "code": Kind.NUMERIC}
    assert (feed.label, feed.rows) == ("class", 3)
    batch, labels = next(feed.batches(10))
    assert labels.tolist() == [0, 1, 0]
    assert feed.encoder.classes == ("yes", "no")
    np.testing.assert_array_equal(batch.numeric, [[31, 1], [np.nan, 2], [44.5, 3]])
    assert batch.nominal.ravel().tolist() == [0, 1, -1]


def test_batches_follow_each_other(tmp_path: Path) -> None:
    feed = FileFeed(write(tmp_path / "data.csv", CSV))

    assert [len(labels) for _, labels in feed.batches(2)] == [2, 1]


def test_any_column_can_be_the_label(tmp_path: Path) -> None:
    feed = FileFeed(write(tmp_path / "data.csv", CSV), label="code")

    assert [feature.name for feature in feed.schema.features] == ["age", "car", "class"]


def test_numbers_can_be_declared_nominal(tmp_path: Path) -> None:
    feed = FileFeed(write(tmp_path / "data.csv", CSV), nominal=["code"])

    assert {f.name for f in feed.schema.features if f.kind == Kind.NOMINAL} == {"car", "code"}


def test_gzip_semicolons_and_whole_number_labels_are_read(tmp_path: Path) -> None:
    path = tmp_path / "data.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfx;y\r\n1,5;0\r\n2,5;1\r\n"))

    feed = FileFeed(path)

    assert feed.schema.features[0].name == "x"
    assert [event["y"] for event in feed.events(5)] == [0, 1]


def test_a_file_gives_events_for_a_topic(tmp_path: Path) -> None:
    feed = FileFeed(write(tmp_path / "data.csv", CSV))

    assert feed.events(2) == [
        {"age": 31.0, "car": "small", "code": 1.0, "class": "yes"},
        {"age": None, "car": "large", "code": 2.0, "class": "no"},
    ]
    assert len(feed.events(5)) == 1
    assert feed.events(5) == []


def test_json_lines_keep_their_types(tmp_path: Path) -> None:
    rows = [
        {"n": 1, "flag": True, "words": ["a"], "label": 3},
        {"n": None, "words": {"b": 1}, "label": 4},
    ]
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n"
    feed = FileFeed(write(tmp_path / "data.jsonl", text))

    batch, labels = next(feed.batches(10))
    kinds = [feature.kind for feature in feed.schema.features]
    assert kinds == [Kind.NUMERIC, Kind.NOMINAL, Kind.SPARSE]
    assert feed.encoder.classes == (3, 4)
    assert labels.tolist() == [0, 1]
    assert batch.sparse_index.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "is empty; expected a header row"),
        ("a.csv", "x,y\n1\n", "line 2: has 1 columns; expected 2"),
        ("a.csv", "x,y\n1,\n", "row 1: has no label"),
        ("a.csv", "x,x,y\n1,1,2\n", "'x' is listed twice"),
        ("a.jsonl", "[1]\n", "line 1: is not a JSON object"),
        ("a.jsonl", '{"x": 1}\n', "line 1: has no label: field 'label' is None"),
        ("a.csv.gz", "not gzip", "cannot be read"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        FileFeed(write(tmp_path / name, text))


def test_a_wrong_value_further_down_names_the_events(tmp_path: Path) -> None:
    rows = ['{"x": 1, "label": "a"}'] * 10_000 + ['{"x": "abc", "label": "a"}']
    feed = FileFeed(write(tmp_path / "a.jsonl", "\n".join(rows)))

    with pytest.raises(SettingsError, match="events 10001 to 10001: feature 'x' is 'abc'"):
        list(feed.batches(1000))


def test_unknown_columns_and_files_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "data.csv", CSV)

    with pytest.raises(SettingsError, match="label column 'nope' is not in"):
        FileFeed(path, label="nope")
    with pytest.raises(SettingsError, match="--nominal names 'nope'"):
        FileFeed(path, nominal=["nope"])
    with pytest.raises(SettingsError, match="does not exist"):
        FileFeed(tmp_path / "none.csv")


def test_a_label_with_too_many_classes_is_an_error_that_names_the_event(tmp_path: Path) -> None:
    rows = "".join(f"{row},id-{row}\n" for row in range(1200))
    feed = FileFeed(write(tmp_path / "data.csv", "x,y\n" + rows))

    with pytest.raises(SettingsError, match=r"event 1001: label 'y' is 'id-1000'; .* 1000 classes"):
        list(feed.batches(300))
