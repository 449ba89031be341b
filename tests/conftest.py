"""Settings shared by every test."""

from __future__ import annotations

import os

import numpy as np
from hypothesis import HealthCheck, settings

if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
    # Compiled kernels divide and wrap around in silence; as plain Python they should too.
    np.seterr(all="ignore")

# Compiling kernels takes seconds at the first example, so there are no deadlines; examples are
# derived from the test itself, so that a red run is red again.
settings.register_profile(
    "livetree",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("livetree")
