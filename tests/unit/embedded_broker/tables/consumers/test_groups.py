"""Settings of consumer groups by themselves."""

from __future__ import annotations

from embedded_broker.settings.config import BrokerConfig
from embedded_broker.settings.profiles import find_profile
from embedded_broker.tables.consumers.groups import GroupTable
from rocketmq_py.clock import SystemClock
from rocketmq_py.protocol.bodies.groups import SubscriptionGroupConfig


def table(profile: str = "rocketmq-5.x", **config: object) -> GroupTable:
    return GroupTable(BrokerConfig(config), find_profile(profile), SystemClock())


def test_the_ready_made_groups_exist_and_others_are_made_on_use() -> None:
    groups = table()
    assert "TOOLS_CONSUMER" in groups
    assert "g" not in groups
    assert groups.get("g") is None
    made = groups.find("g")
    assert made == SubscriptionGroupConfig("g")
    assert groups.find("g") is made
    assert [one.group_name for one in groups][-1] == "g"


def test_groups_are_not_made_when_that_is_off_but_those_of_the_system_are() -> None:
    groups = table(autoCreateSubscriptionGroup=False)
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_OTHER") is not None


def test_the_length_of_a_name_depends_on_the_profile() -> None:
    name = "g" * 121
    assert table().find(name) is None
    assert table("rocketmq-4.9").find(name) is not None
    assert table().find("a b") is None


def test_the_table_comes_back_from_its_document() -> None:
    before, after = table(), table()
    before.put(SubscriptionGroupConfig("g", retry_max_times=3))
    after.load_document(before.to_document())
    assert after.get("g") == SubscriptionGroupConfig("g", retry_max_times=3)
    assert after.to_document() == before.to_document()
    assert "stateVersion" not in table("rocketmq-4.9").to_document()["dataVersion"]
