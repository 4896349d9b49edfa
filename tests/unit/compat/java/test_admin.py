"""The administrator with Java's names, against the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compat.java import (
    AclClientRPCHook,
    DefaultMQAdminExt,
    DefaultMQProducer,
    GroupSettings,
    Message,
    MessageQueue,
    SessionCredentials,
    TopicSettings,
)
from embedded_broker import EmbeddedBroker
from rocketmq_py import UnsupportedOperationError


@pytest.fixture
def admin(broker: EmbeddedBroker) -> Iterator[DefaultMQAdminExt]:
    made = DefaultMQAdminExt(3_000)
    made.setNamesrvAddr(broker.namesrv_addr)
    made.start()
    yield made
    made.shutdown()


def test_topics_are_made_examined_and_deleted(
    broker: EmbeddedBroker, admin: DefaultMQAdminExt
) -> None:
    admin.createAndUpdateTopicConfig(broker.addr, "New", TopicSettings(2, 2))
    found = admin.examineTopicConfig(broker.addr, "New")
    assert found is not None
    assert found.read_queues == 2
    broker.wait_idle()
    assert "T" in admin.fetchAllTopicList()
    assert [place.broker_name for place in admin.examineTopicRouteInfo("T")] == ["broker-a"]
    admin.deleteTopicInBroker([broker.addr], "New")
    admin.deleteTopicInNameServer(admin.getNameServerAddressList(), "New")
    assert admin.examineTopicConfig(broker.addr, "New") is None


def test_messages_and_offsets_are_seen(
    admin: DefaultMQAdminExt, producer: DefaultMQProducer
) -> None:
    result = producer.send(Message("T", "TagA", "k", b"x"))
    queue = result.getMessageQueue()
    assert (admin.minOffset(queue), admin.maxOffset(queue)) == (0, 1)
    assert admin.examineTopicStats("T")[queue].max_offset == 1
    message = admin.viewMessage("T", result.getMsgId())
    assert message.getKeys() == "k"
    assert admin.messageTrackDetail(message) == []
    assert isinstance(queue, MessageQueue)


def test_groups_are_made_examined_reset_and_deleted(
    broker: EmbeddedBroker, admin: DefaultMQAdminExt, producer: DefaultMQProducer
) -> None:
    admin.createAndUpdateSubscriptionGroupConfig(broker.addr, "readers", GroupSettings())
    producer.send(Message("T", b"x"))
    moved = admin.resetOffsetByTimestamp("T", "readers", -1, True)
    assert sum(moved.values()) == 1
    with pytest.raises(UnsupportedOperationError, match="isForce=False is not possible"):
        admin.resetOffsetByTimestamp("T", "readers", -1, False)  # type: ignore[arg-type]
    assert admin.examineConsumeStats("readers", "T").lag == 0
    assert admin.queryTopicConsumeByWho("T") == ("readers",)
    assert admin.examineProducerConnectionInfo("shop")
    admin.deleteSubscriptionGroup(broker.addr, "readers", True)


def test_brokers_and_values_of_name_servers_are_seen_and_changed(
    broker: EmbeddedBroker, admin: DefaultMQAdminExt
) -> None:
    admin.updateBrokerConfig(broker.addr, {"recallMessageEnable": "true"})
    assert admin.getBrokerConfig(broker.addr)["recallMessageEnable"] == "true"
    assert "brokerVersionDesc" in admin.fetchBrokerRuntimeStats(broker.addr)
    assert admin.examineBrokerClusterInfo()
    admin.putKVConfig("NS", "key", "value")
    assert admin.getKVConfig("NS", "key") == "value"
    admin.createAndUpdateKvConfig("NS", "key", "other")
    assert admin.getKVListByNamespace("NS") == {"key": "other"}
    admin.deleteKvConfig("NS", "key")
    assert admin.getKVConfig("NS", "key") is None


def test_users_are_made_listed_and_deleted(
    broker: EmbeddedBroker, admin: DefaultMQAdminExt
) -> None:
    admin.createUser(broker.addr, "alice", "a secret", "Normal")
    with pytest.raises(ValueError, match="userType='Root' is not possible"):
        admin.createUser(broker.addr, "bob", "a secret", "Root")  # type: ignore[arg-type]
    assert [user.name for user in admin.listUser(broker.addr, "alice")] == ["alice"]
    admin.deleteUser(broker.addr, "alice")
    assert admin.listUser(broker.addr, None) == []


@pytest.mark.parametrize("given", [(), (3000,), (None,), (None, 3000)])
def test_every_constructor_of_java_makes_an_administrator(given: Any) -> None:
    assert DefaultMQAdminExt(*given).timeout_millis in {3000, 5000}


def test_an_administrator_signs() -> None:
    made = DefaultMQAdminExt(AclClientRPCHook(SessionCredentials("id", "secret")))
    assert made.credentials is not None
