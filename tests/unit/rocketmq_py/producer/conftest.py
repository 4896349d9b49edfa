"""Producers that are shut down."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from rocketmq_py import DefaultMQProducer

ProducerMaker = Callable[..., DefaultMQProducer]


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
