"""The short way of plain sends leaves the same bytes as the ordinary one, and answers the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.connection import Connection
from embedded_broker.core import BrokerCore
from embedded_broker.store.inner import InnerMessage
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder, encode_frame

START_MS = 1_700_000_000_000
PROPERTIES: Final = "UNIQ_KEY\x017F00000100002A9F4D4B0000000000AB\x02WAIT\x01true\x02"
FIELDS: Final[Mapping[str, object]] = {
    "a": "G",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000123",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}


class Peer(Connection):
    """Keeps what the broker answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 50_000), ("127.0.0.1", 10_911))
        self.received: list[bytes] = []

    def deliver(self, frames: list[bytes]) -> None:
        self.received += frames

    def close(self) -> None:
        self.closed = True

    def answers(self) -> list[RemotingCommand]:
        frames = FrameDecoder().feed(b"".join(self.received))
        return [RemotingCommand.decode(frame) for frame in frames]


def frame(
    number: int = 7, *, body: bytes = b"hello", head: Mapping[str, object] | None = None, **ext: Any
) -> bytes:
    """A request as a client writes it; a field of None is left out."""
    fields = {name: value for name, value in {**FIELDS, **ext}.items() if value is not None}
    document = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": number}
    text = json.dumps({**document, "version": 477, **(head or {})}, separators=(",", ":"))
    return encode_frame(0, text.encode(), body)


@contextmanager
def running(*, short_way: bool = True, **arguments: Any) -> Iterator[tuple[BrokerCore, Peer]]:
    """A broker on a frozen clock with topic T, and a peer of it."""
    clock = VirtualClock(start=datetime.fromtimestamp(START_MS / 1000, UTC))
    with EmbeddedBroker(
        clock=clock, session_clock=clock, tcp=False, topics=["T"], seed=5, **arguments
    ) as broker:
        node = broker.slot.node
        assert node is not None
        if not short_way:
            node.core.endpoint.plain_sends = None
        peer = Peer()
        node.core.connected(peer)
        yield node.core, peer


def say(core: BrokerCore, peer: Peer, *pieces: bytes) -> None:
    for piece in pieces:
        core.receive(peer, FrameDecoder().feed(piece))


def outcome(pieces: Sequence[bytes], **arguments: Any) -> dict[str, object]:
    """Everything that requests leave behind: answers, log, queues, journal."""
    with running(**arguments) as (core, peer):
        say(core, peer, *pieces)
        queues = core.store.queues.items()
        journal = [(entry.code, entry.fields, entry.body_size) for entry in core.journal.requests()]
        node = core.address.partition(":")[0]  # numbered, so each broker has another
        return {
            "answers": [one.replace(node.encode(), b"node") for one in peer.received],
            "log": bytes(core.store.log.files.read_file_from(0)),
            "queues": {key: list(queue.iterate(0)) for key, queue in queues},
            "journal": journal,
            "told": [
                (one.response_code, (one.remark or "").replace(node, "node"))
                for one in core.journal.requests()
            ],
        }


SENDS: Final = {
    "plain": frame(),
    "tags and keys": frame(i=f"TAGS\x01a\x02KEYS\x01k1 k2\x02{PROPERTIES}"),
    "properties behind the key": frame(i=f"{PROPERTIES}TAGS\x01b\x02x\x01y\x02"),
    "no separator at the end": frame(i=PROPERTIES[:-1]),
    "no separator behind the key": frame(i=PROPERTIES.split("\x02", maxsplit=1)[0]),
    "other letters": frame(i=f"TAGS\x01é\x02{PROPERTIES}"),
    "twice a name": frame(i=f"A\x011\x02A\x012\x02{PROPERTIES}"),
    "twice the key": frame(i=PROPERTIES + PROPERTIES),
    "a name that ends like the key": frame(i=f"XUNIQ_KEY\x01AB\x02{PROPERTIES}"),
    "an empty value": frame(i=f"A\x01\x02{PROPERTIES}"),
    "an item that is no item": frame(i=f"A\x02\x02{PROPERTIES}"),
    "a key of signs": frame(i='UNIQ_KEY\x01"%d\x02'),
    "a percent sign": frame(i=f"TAGS\x01%d%s\x02{PROPERTIES}"),
    "what the broker adds": frame(i=f"MSG_REGION\x01mine\x02CLUSTER\x01c\x02{PROPERTIES}"),
    "zero byte": frame(i=f"A\x01\x00\x02{PROPERTIES}"),
    "delay level": frame(i=f"DELAY\x013\x02{PROPERTIES}"),
    "timer": frame(i=f"TIMER_DELAY_SEC\x0110\x02{PROPERTIES}"),
    "bad timer": frame(i=f"TIMER_DELAY_SEC\x01x\x02{PROPERTIES}"),
    "start deliver time": frame(i=f"__STARTDELIVERTIME\x01{START_MS + 9000}\x02{PROPERTIES}"),
    "the timer's own": frame(i=f"TIMER_OUT_MS\x011\x02{PROPERTIES}"),
    "prepared": frame(f="4"),
    "prepared by property": frame(i=f"TRAN_MSG\x01true\x02{PROPERTIES}"),
    "compressed": frame(f="769", body=b"\x78\x9c\x03\x00\x00\x00\x00\x01"),
    "several tags": frame(f="2"),
    "a user's flag": frame(h="5"),
    "reconsumed": frame(j="2"),
    "with a maximum": frame(l="16"),
    "batch": frame(m="true"),
    "any queue": frame(e="-1"),
    "a queue too far": frame(e="99"),
    "queue of no number": frame(e="x"),
    "unknown topic": frame(b="new"),
    "a forbidden topic": frame(b="SCHEDULE_TOPIC_XXXX"),
    "a topic that cannot be": frame(b="a b"),
    "retry topic": frame(b="%RETRY%G"),
    "no topic": frame(b=None),
    "no group": frame(a=None),
    "default queues of no number": frame(d="many"),
    "born of no number": frame(g="1_0"),
    "born before 1970": frame(g="-5"),
    "born beyond 64 bits": frame(g="9" * 30),
    "numbers as numbers": frame(e=1, f=0, g=1700000000123, h=0),
    "no body": frame(body=b""),
    "opaque of 64 bits": frame(2**40),
    "negative opaque": frame(-9),
    "oneway": frame(head={"flag": 2}),
    "an answer": frame(head={"flag": 1}),
    "another code behind": frame(head={"code": 310}) + frame(8, b="T", e="2"),
    "no ext fields": frame(head={"extFields": None}),
    "no JSON": encode_frame(0, b'{"code":310,', b"x"),
}


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize("arguments", [{}, {"profile": "rocketmq-4.9"}, {"defaults": "upstream"}])
def test_both_ways_end_alike(name: str, arguments: dict[str, Any]) -> None:
    pieces = [SENDS["plain"], SENDS[name], SENDS[name], SENDS["plain"]]
    short = outcome(pieces, **arguments)
    assert short == outcome(pieces, short_way=False, **arguments)


@pytest.mark.parametrize(
    "config",
    [
        {"regionId": "R%d", "traceOn": "false"},
        {"maxMessageSize": 4},
        {"brokerPermission": 4},
        {"startDeliverTimeEnable": "false"},
        {"mappedFileSizeCommitLog": 4096},
    ],
)
def test_both_ways_end_alike_whatever_the_settings(config: dict[str, object]) -> None:
    pieces = [*SENDS.values()]
    pieces.remove(SENDS["no JSON"])  # it ends the connection
    short = outcome(pieces, config=config)
    assert short == outcome(pieces, config=config, short_way=False)


def test_an_answer_that_waits_for_the_disk_is_not_given_at_once() -> None:
    with running(config={"flushDiskType": "SYNC_FLUSH"}) as (core, peer):
        plain_sends = core.endpoint.plain_sends
        assert plain_sends is not None
        (one,) = FrameDecoder().feed(SENDS["plain"])
        send = plain_sends.read(one)
        assert send is not None
        with core.door:
            assert plain_sends.put(peer, [send], START_MS, 0) == [one]
        assert core.store.log.max_offset == 0


@pytest.mark.parametrize("text", ["WAIT\x01true\x02", "XUNIQ_KEY\x01AB\x02", None])
def test_a_message_without_an_id_gets_one(text: str | None) -> None:
    with running() as (core, peer):
        say(core, peer, SENDS["plain"], frame(8, i=text))
        assert len(peer.answers()[1].ext_fields["transactionId"]) == 32


def test_only_plain_sends_take_the_short_way() -> None:
    with running() as (core, _):
        assert core.endpoint.plain_sends is not None
        read = core.endpoint.plain_sends.read
        plain = [
            name for name, piece in SENDS.items() if read(FrameDecoder().feed(piece)[0]) is not None
        ]
        assert plain[:4] == [
            "plain",
            "tags and keys",
            "properties behind the key",
            "no separator at the end",
        ]
        assert {"timer", "delay level", "prepared by property", "oneway", "batch"}.isdisjoint(plain)


def test_sends_in_one_piece_keep_their_order_in_each_queue_and_are_all_answered() -> None:
    with running() as (core, peer):
        piece = b"".join(frame(n, body=b"%d" % n, e=str(n % 3)) for n in range(150))
        say(core, peer, piece)
        answers = {answer.opaque: answer for answer in peer.answers()}
        assert sorted(answers) == list(range(150))
        for number, answer in answers.items():
            assert answer.code == ResponseCode.SUCCESS
            assert answer.ext_fields["queueId"] == str(number % 3)
            assert answer.ext_fields["queueOffset"] == str(number // 3)
        for queue_id in range(3):
            queue = core.store.queues["T", queue_id]
            stored = [core.store.record(offset) for _, (offset, _, _) in queue.iterate(0)]
            assert [one.body for one in stored if one] == [
                b"%d" % n for n in range(queue_id, 150, 3)
            ]


def test_other_requests_between_sends_see_what_came_before_them() -> None:
    ask = RemotingCommand(
        RequestCode.GET_MAX_OFFSET, opaque=50, ext_fields={"topic": "T", "queueId": "1"}
    )
    with running() as (core, peer):
        say(core, peer, frame(1) + frame(2) + ask.encode() + frame(3))
        answers = {answer.opaque: answer for answer in peer.answers()}
        assert answers[50].ext_fields["offset"] == "2"
        assert answers[3].ext_fields["queueOffset"] == "2"


def test_sends_before_a_broken_header_are_stored_and_the_connection_ends() -> None:
    with running() as (core, peer):
        say(core, peer, frame(1) + SENDS["no JSON"] + frame(2))
        assert core.store.queues["T", 1].max_offset == 1
        assert peer.closed


class _Curious:
    """A put hook that wants to see every message."""

    name = "curious"

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def before_put(self, msg: InnerMessage, now_ms: int) -> None:
        del now_ms
        self.seen.append(msg.body)


def test_a_hook_that_wants_every_message_sees_them_from_then_on() -> None:
    with running() as (core, peer):
        hook = _Curious()
        say(core, peer, frame(1, body=b"before"))
        core.store.put_hooks.append(hook)
        say(core, peer, frame(2, body=b"then"))
        assert hook.seen == [b"then"]
        assert core.store.queues["T", 1].max_offset == 2


def test_a_changed_setting_counts_from_the_next_send_on() -> None:
    with running() as (core, peer):
        say(core, peer, frame(1))
        core.config.update(regionId="elsewhere")
        say(core, peer, frame(2))
        regions = [answer.ext_fields["MSG_REGION"] for answer in peer.answers()]
        assert regions == ["DefaultRegion", "elsewhere"]
        record = core.store.record(core.store.queues["T", 1].entry(1)[0])  # type: ignore[index]
        assert record is not None
        assert record.properties["MSG_REGION"] == "elsewhere"


def test_a_topic_that_loses_its_write_bit_refuses_the_next_send() -> None:
    with running() as (core, peer):
        say(core, peer, frame(1))
        with core.door:
            topic = core.topics.get("T")
            assert topic is not None
            document = topic.to_document()
            core.topics.put(type(topic).from_document({**document, "perm": 4}))
        say(core, peer, frame(2))
        assert [answer.code for answer in peer.answers()] == [
            ResponseCode.SUCCESS,
            ResponseCode.NO_PERMISSION,
        ]


def test_what_is_remembered_is_bounded() -> None:
    with running() as (core, peer):
        for start in range(0, 3000, 100):
            sends = [frame(n, i=f"KEYS\x01k{n}\x02{PROPERTIES}") for n in range(start, start + 100)]
            say(core, peer, b"".join(sends))
        assert core.endpoint.plain_sends is not None
        assert len(core.endpoint.plain_sends._shapes) <= 1024
        assert len(peer.received) == 3000
