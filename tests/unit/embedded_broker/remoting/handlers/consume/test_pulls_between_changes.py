"""Each pull sees what the requests and calls before it have changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder
from rocketmq_py.protocol.json_text import dumps
from tests.unit.embedded_broker.peers import Peer
from tests.unit.embedded_broker.wire_peer import consumer, pull_fields, send_fields, topic_fields

COMMIT, SUBSCRIPTION = 1, 4


class RawPeer(Peer):
    """A connection that keeps the bytes, too."""

    data = b""

    def deliver(self, frames: list[bytes]) -> None:
        self.data += b"".join(frames)


class Asked(NamedTuple):
    """A broker and a peer of it."""

    parts: BrokerParts
    peer: RawPeer

    def ask(self, *commands: RemotingCommand) -> bytes:
        """Send commands in one piece; give all bytes that come back."""
        self.peer.data = b""
        frames = FrameDecoder().feed(b"".join(command.encode() for command in commands))
        self.parts.endpoint.receive(self.peer, frames)
        return self.peer.data


@contextmanager
def broker_asked() -> Iterator[Asked]:
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    with EmbeddedBroker(clock=clock, session_clock=clock, tcp=False) as broker:
        parts, peer = broker._parts(), RawPeer()
        parts.endpoint.connected(peer)
        one = Asked(parts, peer)
        one.ask(RemotingCommand(17, ext_fields=topic_fields("T")))
        for number in range(40):
            tag = {"TAGS": "AB"[number % 2]}
            one.ask(RemotingCommand(310, ext_fields=send_fields("T", tag), body=b"%d" % number))
        heartbeat = {
            "clientID": "c1",
            "producerDataSet": [],
            "consumerDataSet": [consumer("consumers", {"T": "A"}), consumer("all", {"T": "*"})],
        }
        one.ask(RemotingCommand(34, body=dumps(heartbeat)))
        yield one


@pytest.fixture
def asked() -> Iterator[Asked]:
    with broker_asked() as one:
        yield one


def pull(offset: int = 0, *, opaque: int = 77, **fields: str) -> RemotingCommand:
    ext = pull_fields("T", offset) | fields
    return RemotingCommand(RequestCode.PULL_MESSAGE, opaque, ext_fields=ext)


def test_pulls_and_sends_are_answered_in_their_order(asked: Asked) -> None:
    send = RemotingCommand(310, 1, ext_fields=send_fields("T"), body=b"last")
    come = FrameDecoder().feed(asked.ask(send, pull(40, opaque=2), send, pull(41, opaque=3)))
    answers = [RemotingCommand.decode(frame) for frame in come]
    assert [answer.opaque for answer in answers] == [1, 2, 1, 3]
    assert [answer.code for answer in answers] == [0] * 4


FULL = pull(3, sysFlag=str(COMMIT), commitOffset="2", consumerGroup="all")


def request(code: int, body: object = b"", **fields: str) -> RemotingCommand:
    data = body if isinstance(body, bytes) else dumps(body)
    return RemotingCommand(code, 5, ext_fields=fields, body=data)


def heartbeat(expression: str, version: int) -> RemotingCommand:
    body = {
        "clientID": "c1",
        "producerDataSet": [],
        "consumerDataSet": [consumer("all", {"T": expression}, sub_version=version)],
    }
    return request(34, body)


RESET = {"timestamp": "-2", "isForce": "true", "queueId": "0", "offset": "5"}
CHANGES = {
    "the topic is not to be read": [request(17, **topic_fields("T", perm=2))],
    "the topic has no queue": [request(17, **topic_fields("T", queues=0))],
    "the topic is gone": [request(215, topic="T")],
    "the group is not to consume": [request(200, {"groupName": "all", "consumeEnable": False})],
    "the group may not read the topic": [
        request(353, group="all", topic="T", readable="false"),
    ],
    "the broker is not to be read": [request(25, b"brokerPermission=2")],
    "fewer at once": [request(25, b"maxTransferCountOnMessageInMemory=2")],
    "less at once": [request(25, b"maxTransferBytesOnMessageInMemory=400")],
    "the client is gone": [request(35, clientID="c1", consumerGroup="all")],
    "other tags": [heartbeat("B", 2)],
    "the offset is reset": [request(222, topic="T", group="all", **RESET)],
    "slaves may be read": [
        request(200, {"groupName": "all", "brokerId": 3}),
        request(25, b"slaveReadEnable=true"),
    ],
    "another message": [RemotingCommand(310, 1, ext_fields=send_fields("T"), body=b"last")],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("together", [False, True])
def test_what_changes_between_two_pulls_is_seen_by_the_second(
    changes: list[RemotingCommand], together: bool
) -> None:
    with broker_asked() as one:
        before = one.ask(FULL)
        assert one.ask(FULL) == before
        if together:
            told = one.ask(*changes, FULL)
        else:
            told = b"".join(one.ask(command) for command in (*changes, FULL))
    assert before not in told


def test_it_is_the_same_whether_changes_and_pulls_come_together_or_alone() -> None:
    told = []
    commands = [FULL, *(one for change in CHANGES.values() for one in (*change, FULL))]
    for pieces in ([commands], [[one] for one in commands]):
        with broker_asked() as one:
            come = b"".join(one.ask(*piece) for piece in pieces)
            answers = [RemotingCommand.decode(frame) for frame in FrameDecoder().feed(come)]
            for answer in answers:  # a name of the broker is longer when it is the hundredth
                answer.remark = re.sub(r"broker\[.*?\]", "", answer.remark or "")
            told.append(answers)
    assert told[0] == told[1]


def test_what_the_program_changes_is_seen_as_well(asked: Asked) -> None:
    found = asked.ask(FULL)
    asked.parts.config.update(brokerPermission=2)
    assert b"brokerPermission=2" in asked.ask(FULL)
    asked.parts.config.update(brokerPermission=6)
    assert asked.ask(FULL) == found


def test_a_damaged_record_is_told_of(asked: Asked) -> None:
    command = pull(0, sysFlag="0", consumerGroup="all")
    assert b"FOUND" in asked.ask(command)
    log = asked.parts.store.log
    log.checked_from = log.max_offset
    log.files.write(4, bytes(4))  # the magic of the first record
    assert b"damaged" in asked.ask(command)


def test_what_is_handed_out_and_committed_has_the_time_of_the_message_clock(asked: Asked) -> None:
    for number in range(6):
        flags = str(COMMIT | SUBSCRIPTION)
        asked.ask(
            pull(
                number,
                sysFlag=flags,
                commitOffset=str(number),
                maxMsgNums="1",
                consumerGroup="all",
            )
        )
    now_ms = asked.parts.clock.now_ms
    assert asked.parts.tables.deliveries.times("all", "T", 0, 4) == (now_ms, now_ms)
