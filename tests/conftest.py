"""What holds for every test of the tree."""

from __future__ import annotations

from hypothesis import settings

# A deadline in milliseconds would make a busy machine fail the tests; tests/perf measures time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
