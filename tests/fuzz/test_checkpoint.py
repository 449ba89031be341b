"""Checkpoints whose checksum holds and whose header does not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.checkpoint import FORMAT_VERSION, PREAMBLE, Checkpoint, CheckpointFolder
from app.errors import AppError, CheckpointUnreadable, CheckpointVersion, policy_of
from app.evaluation import Prequential
from app.settings import Settings
from app.wiring import build
from learner import LearnerError
from tests.app.conftest import events
from tests.app.test_training import trained
from tests.fuzz.model import INTEGERS, mutant

LONGER = int(os.environ.get("FUZZ_TIMES", "1"))  # times as many examples

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from(INTEGERS), st.floats(allow_nan=False),
    st.text(max_size=20),
)  # fmt: skip
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)  # fmt: skip


def scored() -> dict[str, Any]:
    scores = Prequential(window=5)
    scores.update(np.array([0, 1, 2, 1] * 3, np.int32), np.array([-1, 1, 0, 1] * 3, np.int32))
    return scores.to_dict()


def checkpoint() -> Checkpoint:
    return Checkpoint(
        model=b"model" + hashlib.sha256(b"model").digest(),
        offsets={0: 10, 12: 3},
        topic="t",
        identity=None,
        events=13,
        created_at="2026-01-01T00:00:00Z",
        shaping={"variant": "vfdt", "tree": {"tau": 0.05}},
        evaluation=scored(),
    )


def sealed(header: bytes, model: bytes = b"model", length: int | None = None) -> bytes:
    """A file with this header, and a checksum that holds."""
    size = len(header) if length is None else length
    body = PREAMBLE.pack(b"LIVETREE", FORMAT_VERSION, size) + header + model
    return body + hashlib.sha256(body).digest()


def read(content: bytes) -> None:
    """Read a file and go as far as the service goes with it."""
    try:
        found = Checkpoint.from_bytes(content)
        Prequential.from_dict(found.evaluation).scores()
    except (CheckpointUnreadable, CheckpointVersion) as exc:
        assert str(exc)  # noqa: PT017
        return
    assert all(partition >= 0 and offset >= 0 for partition, offset in found.offsets.items())
    assert Checkpoint.from_bytes(found.to_bytes()) == found


def test_a_real_one_is_read() -> None:
    found = Checkpoint.from_bytes(checkpoint().to_bytes())

    assert found == checkpoint()
    assert Prequential.from_dict(found.evaluation).to_dict() == scored()


@settings(max_examples=300 * LONGER)
@given(data=st.data())
def test_any_header_is_read_or_refused_in_one_sentence(data: st.DataObject) -> None:
    header = json.loads(sealed_header())
    for _ in range(data.draw(st.integers(1, 3))):
        level = header["evaluation"] if data.draw(st.booleans()) else header
        name = data.draw(st.sampled_from([*sorted(level), "extra"]))
        if data.draw(st.integers(0, 4)) == 0:
            level.pop(name, None)
        elif isinstance(level.get(name), list) and level[name] and data.draw(st.booleans()):
            level[name][data.draw(st.integers(0, len(level[name]) - 1))] = data.draw(scalars)
        else:
            level[name] = data.draw(json_values)
        if not isinstance(header.get("evaluation"), dict):
            break

    read(sealed(json.dumps(header).encode()))


def sealed_header() -> bytes:
    content = checkpoint().to_bytes()
    _, _, size = PREAMBLE.unpack_from(content)
    return content[PREAMBLE.size : PREAMBLE.size + size]


@settings(max_examples=300 * LONGER)
@given(
    junk=st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()),
    length=st.none() | st.integers(0, 2**32 - 1),
)
def test_any_bytes_as_a_header_are_refused_in_one_sentence(junk: bytes, length: int | None) -> None:
    read(sealed(junk, length=length))


@settings(max_examples=200 * LONGER)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_any_byte_may_be_wrong(place: int, byte: int) -> None:
    body = bytearray(checkpoint().to_bytes()[:-32])
    body[place % len(body)] = byte

    read(bytes(body) + hashlib.sha256(body).digest())


@pytest.mark.parametrize(
    "header",
    [
        b'{"shaping":' + b'{"a":' * 500 + b"1" + b"}" * 501,
        b"[" * 100_000,
        b'{"offsets": {"0": 1, "0": -5}}',
        b'{"offsets": {"0": 1e999}}',
        b'{"events": NaN}',
    ],
)
def test_odd_json_is_refused(header: bytes) -> None:
    with pytest.raises(CheckpointUnreadable, match="header"):
        Checkpoint.from_bytes(sealed(header))


def test_a_score_that_would_take_gigabytes_is_refused() -> None:
    state = {**scored(), "last_actual": [2**31 - 1] * 5}

    with pytest.raises(CheckpointUnreadable, match="the class 2147483647; expected less than"):
        Prequential.from_dict(state)


def test_a_wider_window_than_before_is_read_again() -> None:
    wider = Prequential.from_dict(scored(), window=50)

    assert Prequential.from_dict(wider.to_dict()).to_dict() == wider.to_dict()


def test_a_service_with_a_broken_model_says_so_and_does_not_start(tmp_path: Path) -> None:
    """The container holds, the model inside does not: exit code 4, and one sentence."""
    folder = tmp_path / "checkpoints"
    settled = Settings.load(
        environ={},
        source="file",
        file={"path": tmp_path / "events.jsonl"},
        checkpoint={"folder": folder},
        tree={"n_min": 50},
    )
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(events(10)))
    tree = trained(settled, events(1200), 1000).tree
    assert tree is not None
    service = build(settled)
    good = dataclasses.replace(
        checkpoint(), model=tree.to_bytes(), topic=service.consumer.source.topic,
        shaping=json.loads(json.dumps(service.consumer.shaping)),
    )  # fmt: skip
    rng, refused = random.Random(5), 0
    for _ in range(25):
        writer = CheckpointFolder(folder)
        writer.acquire()
        writer.save(dataclasses.replace(good, model=mutant(good.model, rng).data))
        writer.release()
        try:
            service._restored()
        except (AppError, LearnerError) as exc:
            assert policy_of(exc).exit_code == 4  # noqa: PT017
            refused += 1
    assert refused > 5
