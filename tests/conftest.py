"""How many examples hypothesis tries: `HYPOTHESIS_PROFILE` is default, ci or nightly."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A commit waits for the disk, so neither an example's time nor a slow start says anything.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])

# The same examples every time: a red run is then the change's doing. The others explore.
settings.register_profile(
    "default", _COMMON, derandomize=True, max_examples=30, stateful_step_count=25
)
settings.register_profile("ci", _COMMON, max_examples=300, stateful_step_count=50)
settings.register_profile("nightly", _COMMON, max_examples=5000, stateful_step_count=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
