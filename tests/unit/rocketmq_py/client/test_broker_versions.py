"""What a client knows of its brokers' versions, and how it asks."""

from __future__ import annotations

import threading

import pytest

from rocketmq_py import RemotingSendRequestException
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.protocol.bodies.heartbeat import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.rocketmq_py.scripted import Peer, ScriptedCluster


def test_a_broker_is_asked_once_by_a_heartbeat_that_names_no_group(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    (broker,) = cluster.brokers
    broker.on(RequestCode.HEART_BEAT, old)
    versions = instance.broker_versions
    assert not versions.is_known(broker.address)
    assert [versions.of(broker.address, 5_000) for _ in range(2)] == [407, 407]
    assert versions.is_known(broker.address)
    (asked,) = broker.of(RequestCode.HEART_BEAT)
    said = HeartbeatData.decode(asked.body)
    assert (said.producer_data_set, said.consumer_data_set) == ([], [])


def test_whoever_waits_for_a_version_can_be_stopped(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    (broker,) = cluster.brokers
    stop = threading.Event()

    def stopped(*_: object) -> None:
        stop.set()

    broker.on(RequestCode.HEART_BEAT, stopped)
    with pytest.raises(RemotingSendRequestException):
        instance.broker_versions.of(broker.address, 60_000, stop)


def test_what_is_known_is_forgotten_with_the_connection(
    cluster: ScriptedCluster, instance: ClientInstance
) -> None:
    (broker,) = cluster.brokers
    versions = instance.broker_versions
    versions.of(broker.address, 5_000)
    versions.forget(broker.address)
    versions.forget(broker.address)
    assert not versions.is_known(broker.address)


def old(request: RemotingCommand, _: Peer) -> RemotingCommand:
    answer = request.answer(0)
    answer.version = 407
    return answer
