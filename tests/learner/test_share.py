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


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 9), st.integers(0, 100))
def test_every_column_is_one_workers(numeric: int, nominal: int, workers: int, spared: int) -> None:
    all_of_it = known(numeric, nominal)
    shares = [Share.of(worker, workers, all_of_it, spared) for worker in range(workers)]

    parts = [share.known(all_of_it) for share in shares]

    assert np.concatenate([part.numeric for part in parts]).tolist() == list(range(numeric))
    assert np.concatenate([part.nominal for part in parts]).tolist() == list(
        range(numeric, numeric + nominal)
    )


def test_a_first_worker_with_other_work_has_fewer_columns() -> None:
    def sizes(columns: int, workers: int, spared: int) -> list[int]:
        all_of_it = known(columns, 0)
        of = [Share.of(worker, workers, all_of_it, spared) for worker in range(workers)]
        return [len(share.known(all_of_it).numeric) for share in of]

    assert sizes(1000, 2, 0) == [500, 500]
    assert sizes(1000, 2, 40) == [480, 520]
    assert sizes(1000, 4, 40) == [220, 260, 260, 260]
    assert sizes(30, 2, 40) == [0, 30]
    assert sizes(1000, 1, 40) == [1000]
