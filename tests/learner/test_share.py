"""Which columns are a worker's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from learner import Known, Share


def known(numeric: int, nominal: int) -> Known:
    positions = np.arange(numeric + nominal, dtype=np.int32)
    none = np.zeros(0, np.int32)
    values = np.full(nominal, 2, np.int32)
    return Known(2, positions[:numeric], positions[numeric:], values, none, none)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 9))
def test_every_column_is_one_workers(numeric: int, nominal: int, workers: int) -> None:
    all_of_it = known(numeric, nominal)
    shares = [Share.of(worker, workers, all_of_it) for worker in range(workers)]

    parts = [share.known(all_of_it) for share in shares]

    assert np.concatenate([part.numeric for part in parts]).tolist() == list(range(numeric))
    assert np.concatenate([part.nominal for part in parts]).tolist() == list(
        range(numeric, numeric + nominal)
    )
    for counts in ([len(part.numeric) for part in parts], [len(part.nominal) for part in parts]):
        assert max(counts) - min(counts) <= 1
