"""A pull in its usual form is answered as the same pull that is decoded as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from attrs import asdict
from hypothesis import given
from hypothesis import strategies as st

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.consume import Checked, Consume, PullTerms
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.handlers.consume.pull_form import PullForms
from embedded_broker.remoting.handlers.consume.pull_message import PullMessageProcessor
from embedded_broker.remoting.requests import Pulls
from rocketmq_py.protocol.codes import FLAG_ONEWAY, RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import Frame, FrameDecoder
from rocketmq_py.protocol.headers.consume import PullMessageRequestHeader
from rocketmq_py.protocol.json_text import dumps
from tests.unit.embedded_broker.peers import Peer
from tests.unit.embedded_broker.wire_peer import consumer, pull_fields, send_fields, topic_fields

PULL = RequestCode.PULL_MESSAGE
COMMIT, SUSPEND, SUBSCRIPTION = 1, 2, 4


class RawPeer(Peer):
    """A connection that keeps the bytes, too."""

    data = b""

    def deliver(self, frames: list[bytes]) -> None:
        self.data += b"".join(frames)


class Asked(NamedTuple):
    """A broker, a peer of it, and who takes its usual pulls."""

    parts: BrokerParts
    peer: RawPeer
    pulls: Pulls

    def ask(self, *commands: RemotingCommand) -> bytes:
        """Send commands; give all bytes that come back."""
        self.peer.data = b""
        frames = FrameDecoder().feed(b"".join(command.encode() for command in commands))
        self.parts.endpoint.receive(self.peer, frames)
        return self.peer.data

    def both(self, *commands: RemotingCommand) -> tuple[bytes, bytes]:
        """Send the same twice: the second time every pull is decoded as a whole."""
        first = self.ask(*commands)
        self.parts.endpoint.pulls = None
        second = self.ask(*commands)
        self.parts.endpoint.pulls = self.pulls
        return first, second


@contextmanager
def broker_asked() -> Iterator[Asked]:
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    with EmbeddedBroker(clock=clock, session_clock=clock, tcp=False) as broker:
        parts, peer = broker._parts(), RawPeer()
        parts.endpoint.connected(peer)
        pulls = parts.endpoint.pulls
        assert isinstance(pulls, PullMessageProcessor)
        one = Asked(parts, peer, pulls)
        one.ask(RemotingCommand(17, ext_fields=topic_fields("T")))
        one.ask(RemotingCommand(17, ext_fields=topic_fields("Shut", perm=2)))
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


def pull(offset: int = 0, *, flag: int = 0, opaque: int = 77, **fields: str) -> RemotingCommand:
    return RemotingCommand(PULL, opaque, flag, ext_fields=pull_fields("T", offset) | fields)


@pytest.mark.parametrize(
    "command",
    [
        pull(),
        pull(3, maxMsgNums="7"),
        pull(3, sysFlag=str(COMMIT), commitOffset="2", consumerGroup="all"),
        pull(1, sysFlag="0"),
        pull(1, sysFlag="0", consumerGroup="all", subVersion="9"),
        pull(subscription="B", expressionType="TAG"),
        pull(subscription="C"),
        pull(subscription="a > 5", expressionType="SQL92"),
        pull(subscription="a >", expressionType="SQL92"),
        pull(40),
        pull(41),
        pull(topic="Nothing"),
        pull(topic="Shut"),
        pull(queueId="9"),
        pull(consumerGroup="nobody", sysFlag="0"),
        pull(sysFlag=str(COMMIT), commitOffset="-1"),
        pull(queueOffset="x"),
        pull(queueOffset=str(1 << 63)),
        pull(queueOffset="+3"),
        pull(maxMsgNums="0"),
        pull(maxMsgBytes="300"),
        pull(opaque=-5),
        pull(opaque=0),
        pull(flag=FLAG_ONEWAY),
    ],
    ids=lambda command: str(command.ext_fields | {"flag": command.flag, "opaque": command.opaque}),
)
def test_the_answer_is_the_same_byte_for_byte(asked: Asked, command: RemotingCommand) -> None:
    first, second = asked.both(command)
    assert first == second
    assert bool(first) == (not command.flag)


def test_a_pull_that_finds_messages_is_not_decoded(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = asked.ask(pull(3))

    def decode(frame: Frame) -> RemotingCommand:
        raise AssertionError(frame.header)

    monkeypatch.setattr(RemotingCommand, "decode", decode)
    assert asked.ask(pull(3)) == expected
    assert b'"remark":"FOUND"' in expected


def test_pulls_and_sends_are_answered_in_their_order(asked: Asked) -> None:
    send = RemotingCommand(310, 1, ext_fields=send_fields("T"), body=b"last")
    come = FrameDecoder().feed(asked.ask(send, pull(40, opaque=2), send, pull(41, opaque=3)))
    answers = [RemotingCommand.decode(frame) for frame in come]
    assert [answer.opaque for answer in answers] == [1, 2, 1, 3]
    assert [answer.code for answer in answers] == [0] * 4


def test_a_pull_that_waited_is_answered_as_a_decoded_one(asked: Asked) -> None:
    flags = str(SUBSCRIPTION | SUSPEND)
    said = []
    for pulls in (asked.pulls, None):
        asked.parts.endpoint.pulls = pulls
        end = asked.parts.store.max_offset("T", 0)
        assert asked.ask(pull(end, sysFlag=flags)) == b""
        send = RemotingCommand(310, 1, ext_fields=send_fields("T"), body=b"news")
        come = FrameDecoder().feed(asked.ask(send))
        (answer,) = (one for one in map(RemotingCommand.decode, come) if one.opaque == 77)
        said.append((answer.code, answer.remark, answer.flag, set(answer.ext_fields)))
        assert answer.ext_fields["nextBeginOffset"] == str(end + 1)
    assert said[0] == said[1]


def test_the_journal_tells_of_it_as_of_any_request(asked: Asked) -> None:
    asked.both(pull(3), pull(41), pull(topic="Nothing"))
    newest = asked.parts.journal.requests()[-6:]
    told = [asdict(one) for one in newest]
    for one in told:
        assert one.pop("micros") >= 0
    assert told[:3] == told[3:]
    assert [one["response_code"] for one in told[:3]] == [
        ResponseCode.SUCCESS,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.TOPIC_NOT_EXIST,
    ]


TEXTS = st.text(max_size=5) | st.integers(-(2**70), 2**70).map(str)


@given(st.sampled_from(sorted(pull_fields("T"))), TEXTS)
def test_an_odd_field_is_read_as_the_decoded_one_or_not_at_all(name: str, value: str) -> None:
    processor = PullMessageProcessor.__new__(PullMessageProcessor)
    processor._forms = PullForms()
    fields = pull_fields("T") | {name: value}
    (frame,) = FrameDecoder().feed(RemotingCommand(PULL, ext_fields=fields).encode())
    read = processor.read(frame)
    if read is None:
        return
    header = PullMessageRequestHeader.from_ext(RemotingCommand.decode(frame).ext_fields)
    terms = read.form.terms
    assert (header.topic, header.consumer_group) == (terms.topic, terms.group)
    assert (header.queue_id, header.queue_offset) == (terms.queue_id, read.offset)
    assert (header.max_msg_nums, header.sub_version) == (terms.max_count, terms.sub_version)


# -- pulls like those before ---------------------------------------------------------------------


def test_a_pull_like_one_that_was_checked_is_not_checked_again(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [asked.ask(pull(offset)) for offset in (3, 3, 3, 8)]

    def check(_: Consume, terms: PullTerms) -> Checked:
        raise AssertionError(terms)

    monkeypatch.setattr(Consume, "_check", check)
    assert [asked.ask(pull(offset)) for offset in (3, 3, 3, 8)] == expected
    asked.ask(RemotingCommand(105, ext_fields={"topic": "T"}))  # which might have changed anything
    assert b"AssertionError" in asked.ask(pull(3))


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
    said = []
    for is_usual in (True, False):
        with broker_asked() as one:
            if not is_usual:
                one.parts.endpoint.pulls = None
            before = [one.ask(FULL) for _ in range(4)][-1]
            if together:
                told = one.ask(*changes, FULL)
            else:
                told = b"".join(one.ask(command) for command in changes) + one.ask(FULL)
        assert before not in told
        said.append((before, re.sub(rb"broker\[.*?\]", b"", told)))
    assert said[0] == said[1]


def test_whatever_is_no_pull_counts_as_a_change(asked: Asked) -> None:
    door, send = asked.parts.door, CHANGES["another message"]
    for commands, grows in (([FULL, FULL], 0), (send, 1), ([*send, FULL], 1), ([FULL, *send], 1)):
        before = door.changes
        asked.ask(*commands)
        assert door.changes - before == grows


def test_what_the_program_changes_is_seen_as_well(asked: Asked) -> None:
    found = [asked.ask(FULL) for _ in range(4)][-1]
    asked.parts.config.update(brokerPermission=2)
    assert b"brokerPermission=2" in asked.ask(FULL)
    asked.parts.config.update(brokerPermission=6)
    assert asked.ask(FULL) == found


def test_a_damaged_record_is_told_of_by_any_pull(asked: Asked) -> None:
    command = pull(0, sysFlag="0", consumerGroup="all")
    assert b"FOUND" in [asked.ask(command) for _ in range(4)][-1]  # it is not checked any more
    log = asked.parts.store.log
    log.checked_from = log.max_offset
    log.files.write(4, bytes(4))  # the magic of the first record
    first, second = asked.both(command)
    assert first == second
    assert b"damaged" in first


@pytest.mark.parametrize(
    ("expression", "kind", "is_kept"),
    [
        ("A", "TAG", True),
        ("||".join(f"T{number}" for number in range(500)), "TAG", False),
        ("TAGS = 'A'", "SQL92", False),
    ],
)
def test_a_large_filter_is_not_kept_for_every_queue(
    asked: Asked, expression: str, kind: str, is_kept: bool
) -> None:
    asked.parts.config.update(enablePropertyFilter=True)
    command = pull(subscription=expression, expressionType=kind)
    for _ in range(3):
        asked.ask(command)
    usual = asked.pulls.read(FrameDecoder().feed(command.encode())[0])
    assert usual is not None
    assert (usual.form.checked is not None) == is_kept


def test_a_reset_that_waits_holds_up_nobody_else(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [asked.ask(FULL) for _ in range(3)][-1]
    asked.parts.offsets.reset("consumers", "T", 0, 5, tell=True)
    monkeypatch.setattr(Consume, "_check", None)
    assert asked.ask(FULL) == expected


def test_what_is_handed_out_and_committed_in_the_short_way_has_the_time_of_the_message_clock(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_on, short = Consume.read_on, list[int]()

    def note(consume: Consume, terms: PullTerms, *rest: Any) -> Any:
        short.append(rest[1])
        return read_on(consume, terms, *rest)

    monkeypatch.setattr(Consume, "read_on", note)
    for number in range(6):
        offset = str(number)
        asked.ask(
            pull(
                number,
                sysFlag=str(COMMIT | SUBSCRIPTION),
                commitOffset=offset,
                maxMsgNums="1",
                consumerGroup="all",
            )
        )
    assert short[-1] == 5
    now_ms = asked.parts.clock.now_ms
    assert asked.parts.deliveries.times("all", "T", 0, 4) == (now_ms, now_ms)
