"""Client instances that are given back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from rocketmq_py.client.hooks import RPCHook
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.pool import acquire_instance
from rocketmq_py.config import ClientConfig
from tests.unit.rocketmq_py.scripted import ScriptedCluster

InstanceMaker = Callable[..., ClientInstance]


@pytest.fixture
def make_instance() -> Iterator[InstanceMaker]:
    """Make started instances: ``make_instance(namesrv_addr, hooks=(), **settings)``."""
    made: list[ClientInstance] = []

    def make(namesrv_addr: str, hooks: Iterable[RPCHook] = (), **settings: Any) -> ClientInstance:
        config = ClientConfig(namesrv_addr=namesrv_addr, **settings)
        instance = acquire_instance(config, hooks)
        made.append(instance)
        instance.start()
        return instance

    yield make
    for instance in made:
        instance.shutdown()


@pytest.fixture
def instance(cluster: ScriptedCluster, make_instance: InstanceMaker) -> ClientInstance:
    return make_instance(cluster.namesrv_addr)
