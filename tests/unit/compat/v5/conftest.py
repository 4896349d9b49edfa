from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.unit.compat.v5.v5_bench import Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    with ExitStack() as ends:
        yield Bench(ends)
