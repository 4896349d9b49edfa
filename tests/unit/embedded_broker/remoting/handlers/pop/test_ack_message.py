"""Requests 200051, 200053 and 200151: codes and texts of a real 5.3.3 broker."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.guards import Action, Asked
from embedded_broker.core.refusals import Reason, Refused
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from tests.unit.embedded_broker.remoting.handlers.pop.pop_requests import (
    ack,
    ack_fields,
    ask_json,
    handle,
    hide_longer,
    pop,
    pop_fields,
    records,
)
from tests.unit.embedded_broker.wire_peer import Connect, WirePeer


@pytest.fixture
def peer(broker: EmbeddedBroker, connect: Connect) -> WirePeer:
    peer = connect(broker.addr)
    peer.create_topic("T", 1)
    for number in range(5):
        peer.send("T", b"m%d" % number)
    return peer


@pytest.fixture
def popped(peer: WirePeer) -> RemotingCommand:
    return pop(peer)


def hidden(broker: EmbeddedBroker) -> list[int]:
    return sorted(one[3] for one in broker._parts().pop.revive.hidden())


@pytest.mark.case("W103")
@pytest.mark.parametrize(
    ("offset", "changed", "code", "piece"),
    [
        (9, {}, 208, "offset is illegal, key:T@0, commit:9, store:0~5"),
        (-1, {}, 208, "offset is illegal"),
        (5, {}, 0, "None"),
        (0, {"queueId": "7"}, 13, "queueId[7] is illegal, topic:[T] topicConfig.readQueueNums:[1]"),
        (0, {"queueId": "-1"}, 13, "queueId[-1] is illegal"),
        (0, {"topic": "nosuch"}, 17, "topic[nosuch] not exist, apply first please!"),
        (0, {"consumerGroup": "other"}, 0, "None"),
        (0, {"extraInfo": "x"}, 1, "extraInfo[x] is no handle: it has 1 items, not 8"),
        (0, {"extraInfo": ""}, 1, "is no handle"),
        (0, {"extraInfo": "a b c d e f"}, 1, "item 1 is 'a', not a 64-bit number"),
        (0, {"extraInfo": "0 1 2 99999999999999999999 0 b"}, 1, "item 4"),
        (0, {"extraInfo": "0 1 2 77 0 broker-a 0 0"}, 1, "revive queue 77"),
    ],
)
def test_an_ack_of_what_is_not_there_is_told_and_changes_nothing(
    broker: EmbeddedBroker,
    peer: WirePeer,
    popped: RemotingCommand,
    offset: int,
    changed: dict[str, str],
    code: int,
    piece: str,
) -> None:
    answer = ack(peer, handle(popped, max(offset, 0)), offset, **changed)
    assert answer.code == code
    assert piece in str(answer.remark)
    assert hidden(broker) == [0, 1, 2, 3, 4]


@pytest.mark.case("W104")
def test_a_new_invisible_time_has_a_new_handle(
    broker: EmbeddedBroker, peer: WirePeer, popped: RemotingCommand
) -> None:
    answer = hide_longer(peer, handle(popped, 1), 1)
    ext = answer.ext_fields
    assert answer.code == 0
    assert ext["reviveQid"] == popped.ext_fields["reviveQid"]
    assert int(ext["popTime"]) + int(ext["invisibleTime"]) == broker.clock.now_ms + 10_000
    assert ack(peer, handle(popped, 1), 1).code == 0
    assert hidden(broker) == [0, 1, 2, 3, 4]
    assert ack(peer, handle(answer, 1, start=1), 1).code == 0
    assert hidden(broker) == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("offset", "changed", "code"),
    [
        (5, {}, 208),
        (0, {"queueId": "7"}, 13),
        (0, {"topic": "nosuch"}, 17),
        (0, {"extraInfo": "1 2"}, 1),
        (0, {"invisibleTime": str(2**63 - 1)}, 29),
    ],
)
def test_a_new_invisible_time_of_what_is_not_there_is_refused(
    broker: EmbeddedBroker,
    peer: WirePeer,
    popped: RemotingCommand,
    offset: int,
    changed: dict[str, str],
    code: int,
) -> None:
    assert hide_longer(peer, handle(popped, offset), offset, **changed).code == code
    assert hidden(broker) == [0, 1, 2, 3, 4]


def batch(popped: RemotingCommand, bits: str, **changed: object) -> dict[str, object]:
    ext = popped.ext_fields
    return {
        "c": "G",
        "t": "T",
        "r": "0",
        "so": 0,
        "q": 0,
        "rq": int(ext["reviveQid"]),
        "pt": int(ext["popTime"]),
        "it": int(ext["invisibleTime"]),
        "b": bits,
    } | changed


@pytest.mark.case("W106")
def test_a_bit_set_acks_the_offsets_that_it_names(
    broker: EmbeddedBroker, peer: WirePeer, popped: RemotingCommand
) -> None:
    asked = {"brokerName": "broker-a", "acks": [batch(popped, "Cw==")]}
    assert ask_json(peer, RequestCode.BATCH_ACK_MESSAGE, **asked).code == 0
    assert hidden(broker) == [2, 4]
    longs = {
        "consumerGroup": "G",
        "topic": "T",
        "retry": "0",
        "startOffset": 0,
        "queueId": 0,
        "reviveQueueId": int(popped.ext_fields["reviveQid"]),
        "popTime": int(popped.ext_fields["popTime"]),
        "invisibleTime": 60_000,
        "bitSet": "BA==",
    }
    asked = {"brokerName": "broker-a", "acks": [longs]}
    assert ask_json(peer, RequestCode.BATCH_ACK_MESSAGE, **asked).code == 0
    assert hidden(broker) == [4]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", ResponseCode.NO_MESSAGE),
        (b"{}", ResponseCode.NO_MESSAGE),
        (b"nonsense", ResponseCode.SYSTEM_ERROR),
        (b'{"acks":[{"c":"G","t":"T","r":"7","b":"AQ=="}]}', ResponseCode.SYSTEM_ERROR),
        (b'{"acks":[{"c":"G","t":"T","b":"not base64"}]}', ResponseCode.SYSTEM_ERROR),
        (b'{"acks":[{"c":"G","t":"nosuch","b":"AQ=="}]}', ResponseCode.SUCCESS),
    ],
)
def test_a_batch_that_says_nothing_is_told(
    broker: EmbeddedBroker, peer: WirePeer, popped: RemotingCommand, body: bytes, code: int
) -> None:
    assert peer.ask(RequestCode.BATCH_ACK_MESSAGE, body=body).code == code
    assert hidden(broker) == [0, 1, 2, 3, 4]


def test_a_deleted_topic_ends_acks(
    broker: EmbeddedBroker, peer: WirePeer, popped: RemotingCommand
) -> None:
    parts = broker._parts()
    with parts.door:
        del parts.tables.topics._topics["T"]
    assert ack(peer, handle(popped, 0), 0).code == ResponseCode.TOPIC_NOT_EXIST
    assert hide_longer(peer, handle(popped, 0), 0).code == ResponseCode.TOPIC_NOT_EXIST
    broker.clock.advance(60)
    assert (hidden(broker), "%RETRY%G_T" in broker.topics) == ([], False)


class NoSubscriptions:
    """Lets nobody consume."""

    actions = frozenset({Action.SUB})

    def check(self, asked: Asked) -> Refused | None:
        return Refused(Reason.NO_PERMISSION, ",".join(one.name for one in asked.resources))


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (RequestCode.POP_MESSAGE, pop_fields()),
        (RequestCode.PEEK_MESSAGE, pop_fields()),
        (RequestCode.NOTIFICATION, pop_fields()),
        (RequestCode.ACK_MESSAGE, ack_fields("0 0 0 0 0 b", 0)),
        (RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ack_fields("0 0 0 0 0 b", 0)),
        (RequestCode.BATCH_ACK_MESSAGE, {}),
    ],
)
def test_a_guard_sees_what_pops_want(
    broker: EmbeddedBroker, peer: WirePeer, code: int, fields: dict[str, str]
) -> None:
    broker._parts().guards.append(NoSubscriptions())
    answer = peer.ask(code, fields)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert str(answer.remark) == ("T,G" if fields else "")
    broker._parts().guards.clear()
    assert len(records(pop(peer))) == 5
