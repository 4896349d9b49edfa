"""Scripted clusters, and producers that are shut down."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rocketmq_py import DefaultMQProducer
from tests.unit.rocketmq_py.scripted import ScriptedCluster

ClusterMaker = Callable[[int], ScriptedCluster]
ProducerMaker = Callable[..., DefaultMQProducer]


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
    return clusters(1)


@pytest.fixture
def start() -> Iterator[ProducerMaker]:
    """Start producers: ``start(namesrv_addr, **settings)``."""
    made: list[DefaultMQProducer] = []

    def make(namesrv_addr: str, group: str = "G", **settings: object) -> DefaultMQProducer:
        producer = DefaultMQProducer(
            group,
            namesrv_addr=namesrv_addr,
            **settings,  # type: ignore[arg-type] # whatever a test wants to try
        )
        producer.start()
        made.append(producer)
        return producer

    yield make
    for producer in made:
        producer.shutdown()
