"""Profiles are found by name, and carry the numbers of their version."""

import attrs
import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.settings.options import OPTIONS
from embedded_broker.settings.profiles import (
    LIMITS,
    PROFILES,
    ProfileName,
    find_limits,
    find_profile,
)
from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.errors import ConfigError
from rocketmq_py.protocol.codes import MQVersion


def test_the_default_profile_answers_as_5_3_3() -> None:
    profile = find_profile("rocketmq-5.x")

    assert profile.version == MQVersion.V5_3_3
    assert profile.invalid_parameter == 29
    assert not profile.answers_with_request_type


def test_the_4_9_profile_answers_as_4_9_4() -> None:
    profile = find_profile("rocketmq-4.9")

    assert profile.version == MQVersion.V4_9_4
    assert profile.invalid_parameter == 1
    assert profile.answers_with_request_type
    assert not profile.namesrv_answers_unknown


def test_the_generations_differ_in_every_habit() -> None:
    old, new = find_profile("rocketmq-4.9"), find_profile("rocketmq-5.x")
    assert old.marks_stored_messages is False
    assert new.marks_stored_messages is True
    names = [field.name for field in attrs.fields(type(old))]
    habits = names[names.index("marks_stored_messages") : names.index("options")]
    assert len(habits) == 10
    assert [name for name in habits if getattr(old, name) == getattr(new, name)] == []


def test_a_profile_is_filed_under_its_own_name() -> None:
    assert [profile.name for profile in PROFILES.values()] == list(PROFILES)


def test_an_unknown_profile_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match=r"rocketmq-4\.9, rocketmq-5\.x"):
        find_profile("rocketmq-3")


@pytest.mark.parametrize(("profile", "waiting"), [("rocketmq-4.9", 0), ("rocketmq-5.x", 1)])
def test_a_4_9_broker_does_not_know_timer_messages_and_delivers_them_at_once(
    profile: ProfileName, waiting: int
) -> None:
    with EmbeddedBroker(clock=VirtualClock(), profile=profile, tcp=False, topics=["T"]) as broker:
        broker.send("T", b"timed", delay=5)
        assert broker.timers.count() == waiting
        assert len(broker.messages.in_topic("T")) == 1 - waiting


def test_delay_levels_work_in_every_profile() -> None:
    with EmbeddedBroker(
        clock=VirtualClock(), profile="rocketmq-4.9", tcp=False, topics=["T"]
    ) as broker:
        with DefaultMQProducer("G", namesrv_addr=broker.namesrv_addr) as producer:
            producer.send(Message("T", b"level").set_delay_time_level(1))
        assert broker.messages.in_topic("T") == []
        broker.clock.advance(1)
        assert len(broker.messages.in_topic("T")) == 1


def test_limits_are_data_whose_options_exist() -> None:
    assert set(LIMITS) == {"broker", "proxy", "aliyun"}
    for name, limits in LIMITS.items():
        assert find_limits(name) is limits
        assert limits.name == name
        assert limits.options.keys() <= OPTIONS.keys()
    for profile in PROFILES.values():
        assert profile.options.keys() <= OPTIONS.keys()


def test_unknown_limits_are_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match="aliyun, broker, proxy"):
        find_limits("huawei")
