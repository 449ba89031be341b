"""Which slow twin stands for which options."""

from __future__ import annotations

import pytest

from tests.oracle.choose import oracle_for
from tests.oracle.efdt import EfdtOracle
from tests.oracle.leaf import NOMINAL, Options
from tests.oracle.reference import ReferenceOracle
from tests.oracle.streamtree import StreamTreeOracle
from tests.oracle.vfdt import OracleTree


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (Options(timing="imac"), OracleTree),
        (Options(timing="osm", policy="anytime_eager"), EfdtOracle),
        (Options(queue_bytes=1), StreamTreeOracle),
        (Options(timing="cgd", reference_from=100.0), ReferenceOracle),
    ],
)
def test_the_options_choose_the_tree(options: Options, expected: type[OracleTree]) -> None:
    tree = oracle_for([NOMINAL], 3, options)

    assert type(tree) is expected
    assert (tree.kinds, tree.known_classes, tree.options) == ([NOMINAL], 3, options)
