"""A scripted cluster of one broker, for failures that no real one shows on demand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.rocketmq_py.scripted import ScriptedCluster


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    made = ScriptedCluster()
    yield made
    made.close()
