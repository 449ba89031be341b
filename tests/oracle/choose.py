"""The slow twin for a set of options."""

from __future__ import annotations

from tests.oracle.efdt import EfdtOracle
from tests.oracle.leaf import Options
from tests.oracle.reference import ReferenceOracle
from tests.oracle.streamtree import StreamTreeOracle
from tests.oracle.vfdt import OracleTree


def oracle_for(kinds: list[str], declared_classes: int, options: Options) -> OracleTree:
    """A new tree of the class that the options ask for."""
    if options.reference_from > 0.0:
        return ReferenceOracle(kinds, declared_classes, options)
    if options.policy != "commit_once":
        return EfdtOracle(kinds, declared_classes, options)
    if options.queue_bytes > 0:
        return StreamTreeOracle(kinds, declared_classes, options)
    return OracleTree(kinds, declared_classes, options)
