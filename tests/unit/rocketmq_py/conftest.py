"""Scripted clusters for the tests of everything that talks to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.unit.rocketmq_py.scripted import ScriptedCluster

ClusterMaker = Callable[[int], ScriptedCluster]


@pytest.fixture
def clusters() -> Iterator[ClusterMaker]:
    """Make clusters of so many brokers."""
    made: list[ScriptedCluster] = []

    def make(brokers: int) -> ScriptedCluster:
        made.append(ScriptedCluster(brokers))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(clusters: ClusterMaker) -> ScriptedCluster:
    """A cluster of one broker."""
    return clusters(1)
