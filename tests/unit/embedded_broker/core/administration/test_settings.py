"""Options by request: 25 changes them, 26 shows them."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.settings.options import OPTIONS
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.json_text import loads
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer


def update(peer: WirePeer, text: str) -> RemotingCommand:
    return peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


def test_an_option_is_changed_and_acts_at_once(broker: EmbeddedBroker, peer: WirePeer) -> None:
    answer = update(peer, "# by hand\ntimerMaxDelaySec = 10\ntimerStopDequeue=true\n")

    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    assert broker.config["timerMaxDelaySec"] == 10
    assert broker.config["timerStopDequeue"] is True
    assert peer.send("T", properties={"TIMER_DELAY_SEC": "11"}).code == 13
    assert update(peer, "").code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("timerMaxDelaySecs=5", "did you mean timerMaxDelaySec"),
        ("timerMaxDelaySec=-5", "an integer from 0"),
        ("timerPrecisionMs=100", "set before start"),
        ("timerGetMessageThreadNum=5", "only 3"),
        ("brokerName=b", "the argument broker_name"),
        ("nonsense", "name=value"),
    ],
)
def test_what_cannot_be_is_1_with_a_sentence_and_nothing_is_changed(
    broker: EmbeddedBroker, peer: WirePeer, text: str, reason: str
) -> None:
    answer = update(peer, f"timerStopEnqueue=true\n{text}")

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert reason in (answer.remark or "")
    assert broker.config["timerStopEnqueue"] is False


@pytest.mark.parametrize("name", ["brokerConfigPath", "rocketmqHome", "configBlackList"])
def test_a_black_listed_name_is_16(peer: WirePeer, name: str) -> None:
    assert update(peer, f"{name}=/etc").code == ResponseCode.NO_PERMISSION


def test_what_a_real_broker_has_and_this_one_does_not_is_named(peer: WirePeer) -> None:
    answer = update(peer, "sendMessageThreadPoolNums=4\nuseEpollNativeSelector=true")

    assert answer.code == ResponseCode.SUCCESS
    assert answer.remark == ("no effect here: sendMessageThreadPoolNums, useEpollNativeSelector")


def test_every_option_is_shown_with_its_value(broker: EmbeddedBroker, peer: WirePeer) -> None:
    update(peer, "timerMaxDelaySec=10")
    update(peer, "timerMaxDelaySec=11")

    answer = peer.ask(RequestCode.GET_BROKER_CONFIG)

    shown = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
    assert shown.keys() >= OPTIONS.keys()
    assert (shown["timerMaxDelaySec"], shown["timerWheelEnable"]) == ("11", "true")
    host, _, port = broker.addr.rpartition(":")
    assert (shown["brokerName"], shown["brokerIP1"], shown["listenPort"]) == (
        "broker-a",
        host,
        port,
    )
    assert loads(answer.ext_fields["version"]) == {
        "counter": 2,
        "stateVersion": 0,
        "timestamp": broker.clock.now_ms,
    }


def test_the_properties_that_mqadmin_exports_are_there(peer: WirePeer) -> None:
    """`exportConfigs` ends with a NullPointerException when one is not."""
    body = peer.ask(RequestCode.GET_BROKER_CONFIG).body.decode()
    shown = dict(line.split("=", 1) for line in body.splitlines())
    wanted = {"brokerId": "0", "filterServerNums": "0", "useTLS": "false"}
    assert {name: shown.get(name) for name in wanted} == wanted


def test_a_4_9_version_has_no_state(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(profile="rocketmq-4.9")
    answer = connect(broker.addr).ask(RequestCode.GET_BROKER_CONFIG)
    assert loads(answer.ext_fields["version"]).keys() == {"counter", "timestamp"}
