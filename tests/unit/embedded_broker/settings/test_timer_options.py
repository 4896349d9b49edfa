"""Every option of the timer store can be set in all three ways, and acts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from embedded_broker import EmbeddedBroker, RecallOutcome, VirtualClock
from embedded_broker.settings.config import parse_conf
from embedded_broker.settings.options import OPTIONS, OptionValue, show
from rocketmq_py.errors import ConfigError, MQBrokerException
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.protocol.headers.send import RecallMessageRequestHeader
from tests.unit.embedded_broker.wire_peer import WirePeer


class Setting(NamedTuple):
    """An option, another value for it, and what it is by default."""

    name: str
    value: OptionValue
    default: OptionValue


SETTINGS = [
    Setting("timerWheelEnable", False, True),
    Setting("timerPrecisionMs", 100, 1000),
    Setting("timerRollWindowSlot", 100, 172_800),
    Setting("timerMaxDelaySec", 60, 259_200),
    Setting("mappedFileSizeTimerLog", 1024, 104_857_600),
    Setting("timerFlushIntervalMs", 50, 1000),
    Setting("timerGetMessageThreadNum", 3, 3),
    Setting("timerPutMessageThreadNum", 3, 3),
    Setting("timerCongestNumEachSlot", 10, 2_147_483_647),
    Setting("timerEnableRetryUntilSuccess", False, True),
    Setting("timerSkipUnknownError", True, False),
    Setting("timerStopEnqueue", True, False),
    Setting("timerStopDequeue", True, False),
    Setting("timerWarmEnable", True, False),
    Setting("timerEnableDisruptor", False, False),
    Setting("timerInterceptDelayLevel", False, False),
    Setting("timerEnableCheckMetrics", False, True),
    Setting("timerCheckMetricsWhen", "03;05", "05"),
    Setting("timerMetricSmallThreshold", 5, 1_000_000),
    Setting("timerProgressLogIntervalMs", 50, 10_000),
    Setting("disappearTimeAfterStart", 500, -1),
    Setting("messageDelayLevel", "1s 2s", OPTIONS["messageDelayLevel"].default),
    Setting("flushDelayOffsetInterval", 50, 10_000),
    Setting("enableScheduleMessageStats", True, True),
    Setting("enableScheduleAsyncDeliver", True, False),
    Setting("scheduleAsyncDeliverMaxPendingLimit", 5, 2000),
    Setting("scheduleAsyncDeliverMaxResendNum2Blocked", 1, 3),
    Setting("delayOffsetUpdateVersionStep", 1, 200),
    Setting("recallMessageEnable", False, True),
    Setting("allowRecallWhenBrokerNotWriteable", False, True),
    Setting("enableSlaveActingMaster", True, False),
    Setting("enableRemoteEscape", True, False),
    Setting("enableMixedMessageType", True, False),
    Setting("fileReservedTime", 48, 72),
    Setting("deleteWhen", "05", "04"),
    Setting("maxMessageSize", 1000, 4_194_304),
    Setting("maxDelayTimeMills", 1000, 86_400_000),
    Setting("useDelayLevel", False, False),
    Setting("enableTopicMessageTypeCheck", False, True),
    Setting("startDeliverTimeEnable", False, True),
    Setting("outOfRangePolicy", "immediate", "reject"),
    Setting("enforceTopicMessageType", True, False),
    Setting("routeDelayLevelToWheel", True, False),
    Setting("timerBareDeleteKey", True, False),
    Setting("timerCongestPolicy", "monotone", "source"),
    Setting("timerReleasePrecisionMs", 1000, 1),
    Setting("timerSkipOldSlots", True, False),
    Setting("timerEngine", "sliced", "wheel"),
    Setting("timeSliceLength", 600, 1800),
    Setting("slicePreloadSec", 30, 60),
    Setting("mappedFileSizeDCommitLog", 1_048_576, 67_108_864),
    Setting("sliceCell", "offset", "offset"),
]


Start = Callable[..., EmbeddedBroker]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start brokers with these options; they are closed after the test."""
    with ExitStack() as ends:

        def one(config: dict[str, object] | None = None) -> EmbeddedBroker:
            broker = EmbeddedBroker(clock=VirtualClock(), config=config, topics=["T"])
            return ends.enter_context(broker)

        yield one


def test_the_table_holds_every_option_of_timers() -> None:
    named = {setting.name for setting in SETTINGS}
    assert {name for name in OPTIONS if name.startswith(("timer", "slice"))} <= named
    for name, value, default in SETTINGS:
        option = OPTIONS[name]
        assert value != default or option.fixed or option.choices == (value,), name


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_an_option_is_set_by_constructor_file_and_request(setting: Setting, start: Start) -> None:
    name, value, default = setting
    option = OPTIONS[name]
    broker = start()
    assert broker.config[name] == default

    by_constructor = start({name: value})
    assert by_constructor.config[name] == value

    conf = parse_conf(f"{name} = {show(value)}\n")
    by_file = start(dict(conf.options))
    assert by_file.config[name] == value

    with WirePeer(broker.addr) as peer:
        text = f"{name}={show(value)}"
        answer = peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
        if option.live or value == default:
            assert (answer.code, broker.config[name]) == (ResponseCode.SUCCESS, value)
        else:
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "set before start" in (answer.remark or "")
            assert broker.config[name] == default
        shown = peer.ask(RequestCode.GET_BROKER_CONFIG).body.decode().splitlines()
    assert f"{name}={show(broker.config[name])}" in shown


def refusal(broker: EmbeddedBroker, **properties: str) -> tuple[int, str]:
    with pytest.raises(MQBrokerException) as caught:
        broker.send("T", b"x", properties=properties)
    return caught.value.code, caught.value.remark or ""


def test_out_of_range_can_mean_at_once(start: Start) -> None:
    broker = start({"outOfRangePolicy": "immediate"})

    broker.send("T", b"x", delay=4 * 86_400)

    assert (broker.topics["T"].count(), broker.timers.count()) == (1, 0)
    broker.config.update(outOfRangePolicy="reject")
    code, remark = refusal(broker, TIMER_DELAY_SEC=str(4 * 86_400))
    assert (code, "259200000 ms (timerMaxDelaySec)" in remark) == (13, True)


def test_the_alias_of_aliyun_can_be_switched_off_while_running(start: Start) -> None:
    broker = start()
    due = {"__STARTDELIVERTIME": str(broker.clock.now_ms + 5000)}
    broker.send("T", b"later", properties=due)
    assert (broker.topics["T"].count(), broker.timers.count()) == (0, 1)

    broker.config.update(startDeliverTimeEnable=False)
    broker.send("T", b"now", properties=due)

    (message,) = broker.messages.in_topic("T")
    assert (message.body, message.properties["__STARTDELIVERTIME"]) == (b"now", due.popitem()[1])


def test_levels_can_use_the_wheel(start: Start) -> None:
    broker = start({"routeDelayLevelToWheel": True, "timerMaxDelaySec": 1})

    broker.send("T", b"x", delay_level=2)

    parts = broker._parts()
    with parts.door.quiet:
        assert parts.store.max_offset("rmq_sys_wheel_timer", 0) == 1
        assert parts.store.max_offset("SCHEDULE_TOPIC_XXXX", 1) == 0
    broker.clock.advance(4.999)
    assert broker.topics["T"].count() == 0
    broker.clock.advance(0.001)
    assert broker.topics["T"].count() == 1


@pytest.mark.parametrize(
    "name", ["TIMER_OUT_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"]
)
def test_what_only_the_timer_writes_is_stripped_from_sends(start: Start, name: str) -> None:
    broker = start()
    broker.send("T", b"x", properties={name: "5", "TIMER_DELAY_SEC": "5"})
    assert broker.topics["T"].count() == 0
    broker.clock.advance(5)
    (message,) = broker.messages.in_topic("T")
    assert message.properties.get(name) != "5"


def send_delete(broker: EmbeddedBroker, topic: str, key: str, due_ms: int) -> None:
    broker.send(
        topic,
        b"delete",
        properties={"TIMER_DEL_UNIQKEY": key, "TIMER_DELIVER_MS": str(due_ms)},
    )


def test_a_clients_delete_key_is_stripped_unless_the_flag_is_set(start: Start) -> None:
    broker = start()
    due_ms = broker.clock.now_ms + 5000
    victim = broker.send("T", b"victim", properties={"TIMER_DELIVER_MS": str(due_ms)})

    send_delete(broker, "T", victim.msg_id, due_ms)
    broker.clock.advance(5)

    assert {message.body for message in broker.messages.in_topic("T")} == {b"victim", b"delete"}


@pytest.mark.parametrize("qualified", [False, True])
def test_a_client_from_before_5_3_2_takes_a_timer_back_by_its_bare_key(
    start: Start, qualified: bool
) -> None:
    broker = start({"timerBareDeleteKey": True})
    broker.topics.create("U")
    due_ms = broker.clock.now_ms + 5000
    due = {"TIMER_DELIVER_MS": str(due_ms)}
    victim = broker.send("T", b"victim", properties=due)
    broker.send("T", b"other", properties=due)
    broker.send("U", b"of another topic", properties={**due, "UNIQ_KEY": victim.msg_id})

    key = f"T+{victim.msg_id}" if qualified else victim.msg_id
    send_delete(broker, "U" if qualified else "T", key, due_ms)

    assert broker.timers.count() == 2
    assert broker.timers.recall(victim.msg_id, topic="T") is RecallOutcome.UNKNOWN
    broker.clock.advance(5)
    assert [message.body for message in broker.messages.in_topic("T")] == [b"other"]
    assert [message.body for message in broker.messages.in_topic("U")] == [b"of another topic"]
    assert broker.timers.count() == 0


def test_a_delete_for_a_past_time_is_refused(start: Start) -> None:
    broker = start({"timerBareDeleteKey": True, "outOfRangePolicy": "immediate"})
    with pytest.raises(MQBrokerException) as caught:
        send_delete(broker, "T", "ID", broker.clock.now_ms - 1)
    assert caught.value.code == ResponseCode.MESSAGE_ILLEGAL
    with pytest.raises(MQBrokerException):  # it must not become a visible message either
        send_delete(broker, "T", "ID", broker.clock.now_ms + 10**10)
    assert broker.topics["T"].count() == 0


def test_recall_can_be_switched_off_while_running(start: Start) -> None:
    broker = start()
    sent = broker.send("T", b"x", delay=5)
    broker.config.update(recallMessageEnable=False)
    assert sent.recall_handle is not None
    assert RecallHandle.decode(sent.recall_handle).topic == "T"
    header = RecallMessageRequestHeader(topic="T", recall_handle=sent.recall_handle)
    with WirePeer(broker.addr) as peer:
        answer: RemotingCommand = peer.ask(RequestCode.RECALL_MESSAGE, header.to_ext())
    assert answer.code == ResponseCode.NO_PERMISSION


def test_a_refused_option_names_the_setting() -> None:
    with pytest.raises(ConfigError, match="outOfRangePolicy"):
        EmbeddedBroker(config={"outOfRangePolicy": "later"})
