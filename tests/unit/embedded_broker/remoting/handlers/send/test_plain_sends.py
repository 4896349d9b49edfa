"""The short way of plain sends leaves the same bytes as the ordinary one, and answers the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.connection import Connection
from embedded_broker.remoting.handlers.send.plain_sends import PlainSends
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.inner import InnerMessage
from embedded_broker.timer.wheel.engine import TimerMessageStore
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
            node.core.endpoint.runs = None
        peer = Peer()
        node.core.endpoint.connected(peer)
        yield node.core, peer


def say(core: BrokerCore, peer: Peer, *pieces: bytes) -> None:
    for piece in pieces:
        core.endpoint.receive(peer, FrameDecoder().feed(piece))


def timers_of(core: BrokerCore) -> dict[str, object]:
    """What the timer engine has: log bytes, slots, counts, pointers and what is in memory."""
    timers = core.timers
    found: dict[str, object] = {
        "metrics": timers.metrics.snapshot(),
        "stages": {
            name: (one.queue_depth, one.counters)
            for name, one in timers.stages.items()
            if "Flush" not in name  # flushes come when they come
        },
        "delayed": core.store.delayed_puts,
    }
    if isinstance(timers, TimerMessageStore):
        state = timers._state
        found |= {
            "timer log": bytes(state.log.read_bytes(0)) if state.log.end else b"",
            "wheel": list(state.wheel.used_slots()),
            "next": state.wheel.next_waiting(state.curr_read_ms),
            "waiting": (bytes(state.wheel._waiting), bytes(state.wheel._has_due)),
            "pointers": (state.curr_queue_offset, state.curr_write_ms, state.curr_read_ms),
            "front": sorted(state.due_heap.heap),
        }
    return found


def outcome(
    pieces: Sequence[bytes], *, advance_s: float = 0, **arguments: Any
) -> dict[str, object]:
    """Everything that requests leave behind: answers, log, queues, journal, timers."""
    with running(**arguments) as (core, peer):
        assert isinstance(core.clock, VirtualClock)
        for piece in pieces:
            say(core, peer, piece)
            core.clock.advance(0)  # else the driver's thread does what is due now, at some time
        if advance_s:
            core.clock.advance(advance_s)
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
            "timers": timers_of(core),
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
    "start deliver time, behind": frame(i=f"{PROPERTIES}__STARTDELIVERTIME\x01{START_MS + 5}\x02"),
    "start deliver time 0": frame(i=f"__STARTDELIVERTIME\x010\x02{PROPERTIES}"),
    "milliseconds": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x011500\x02"),
    "milliseconds at the end": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x0199500"),
    "one millisecond": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x011\x02"),
    "an instant": frame(i=f"TAGS\x01a\x02TIMER_DELIVER_MS\x01{START_MS + 12345}\x02{PROPERTIES}"),
    "an instant, no WAIT": frame(
        i=f"{PROPERTIES.partition('WAIT')[0]}TIMER_DELIVER_MS\x01{START_MS + 777_000}\x02"
    ),
    "an instant in the past": frame(i=f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS - 1}\x02"),
    "this instant": frame(i=f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS}\x02"),
    "seconds 0": frame(i=f"{PROPERTIES}TIMER_DELAY_SEC\x010\x02"),
    "seconds with a sign": frame(i=f"{PROPERTIES}TIMER_DELAY_SEC\x01+5\x02"),
    "seconds with zeros": frame(i=f"{PROPERTIES}TIMER_DELAY_SEC\x01005\x02"),
    "seconds of other letters": frame(i=f"{PROPERTIES}TIMER_DELAY_SEC\x01٣\x02"),
    "longer than ever": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x01{9 * 10**14}\x02"),
    "beyond 64 bits": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x01{10**30}\x02"),
    "the longest": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x01259200000\x02"),
    "one more": frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x01259200001\x02"),
    "two requests": frame(i=f"TIMER_DELAY_MS\x019000\x02TIMER_DELAY_SEC\x0120\x02{PROPERTIES}"),
    "two requests, the winner first": frame(
        i=f"TIMER_DELAY_SEC\x0130\x02TIMER_DELIVER_MS\x01junk\x02{PROPERTIES}"
    ),
    "twice the same": frame(i=f"TIMER_DELAY_MS\x019000\x02TIMER_DELAY_MS\x0120000\x02{PROPERTIES}"),
    "a level wins": frame(i=f"TIMER_DELAY_MS\x019000\x02DELAY\x012\x02{PROPERTIES}"),
    "a level of 0": frame(i=f"TIMER_DELAY_MS\x019000\x02DELAY\x010\x02{PROPERTIES}"),
    "a name like a request": frame(i=f"XTIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a request in a value": frame(i=f"x\x01TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a request in the key": frame(i="UNIQ_KEY\x01TIMER_DELAY_MS\x019000\x02"),
    "a number in the key": frame(i="TIMER_DELAY_MS\x019000\x02UNIQ_KEY\x01AB9000CD\x02"),
    "the number twice": frame(i=f"KEYS\x019000\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a zero byte for a number": frame(i=f"TIMER_DELAY_MS\x01\0\x02{PROPERTIES}"),
    "a zero byte beside a number": frame(i=f"A\x01\0\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a timer with the broker's names": frame(
        i=f"REAL_TOPIC\x01x\x02REAL_QID\x017\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    ),
    "a timer with a timer's names": frame(
        i=f"TIMER_OUT_MS\x011\x02TIMER_DUE_MS\x013\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    ),
    "a timer with a percent sign": frame(
        i=f"TAGS\x01%b%d\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    ),
    "a timer, compressed": frame(f="769", i=f"TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a timer of a transaction": frame(
        i=f"TRAN_MSG\x01true\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"
    ),
    "a timer for a retry topic": frame(b="%RETRY%G", i=f"TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a timer for a new topic": frame(b="new", i=f"TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
    "a mark": frame(i=f"TIMER_DEL_UNIQKEY\x01T+AB\x02TIMER_DELAY_MS\x019000\x02{PROPERTIES}"),
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
        {"timerWheelEnable": "false"},
        {"timerCongestNumEachSlot": 3},
        {"timerPrecisionMs": 100},
        {"timerMaxDelaySec": 20},
        {"timerStopEnqueue": "true"},
        {"timerRollWindowSlot": 3},
        {"routeDelayLevelToWheel": "true"},
        {"outOfRangePolicy": "immediate"},
        {"timerBareDeleteKey": "true"},
        {"mappedFileSizeTimerLog": 52 * 3 + 20},
        {"timerEngine": "sliced"},
    ],
    ids=",".join,
)
def test_both_ways_end_alike_whatever_the_settings(config: dict[str, object]) -> None:
    pieces = [*SENDS.values()]
    pieces.remove(SENDS["no JSON"])  # it ends the connection
    short = outcome(pieces, config=config)
    assert short == outcome(pieces, config=config, short_way=False)


TIMED: Final = [
    frame(number, i=f"UNIQ_KEY\x01AB{number:030d}\x02{name}\x01{value}\x02", e=str(number % 4))
    for number, (name, value) in enumerate(
        [
            *(("TIMER_DELAY_MS", one) for one in (9000, 1, 9001, 500_000, 9000, 700, 1500, 2500)),
            *(("TIMER_DELAY_SEC", one) for one in (9, 1, 10, 259_200, 2, 9)),
            *(("TIMER_DELIVER_MS", START_MS + one) for one in (9000, 1, 1000, 1001, 3 * 10**7)),
            *(("__STARTDELIVERTIME", START_MS + one) for one in (9000, 2, 60_000)),
        ]
    )
]


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"timerPrecisionMs": 100},
        {"timerRollWindowSlot": 3},
        {"mappedFileSizeTimerLog": 52 * 3 + 20},
        {"mappedFileSizeCommitLog": 4096},
        {"timerMaxDelaySec": 20},
        {"timerCongestNumEachSlot": 3},
        {"timerStopEnqueue": "true"},
        {"timerStopDequeue": "true"},
        {"timerEngine": "sliced"},
    ],
    ids=lambda config: ",".join(config) or "usual",
)
@pytest.mark.parametrize("advance_s", [0, 0.0005, 9.5])
def test_timers_that_come_together_end_like_single_ones(
    config: dict[str, object], advance_s: float
) -> None:
    pieces = [b"".join(TIMED), b"".join(TIMED[3:9]), TIMED[0]]
    short = outcome(pieces, config=config, advance_s=advance_s)
    assert short == outcome(pieces, config=config, advance_s=advance_s, short_way=False)


def test_a_timer_is_recalled_by_the_handle_that_the_short_way_gives() -> None:
    with running() as (core, peer):
        say(core, peer, b"".join(TIMED))
        handle = peer.answers()[0].ext_fields["recallHandle"]
        fields = {"producerGroup": "G", "topic": "T", "recallHandle": handle}
        say(core, peer, RemotingCommand(RequestCode.RECALL_MESSAGE, ext_fields=fields).encode())
        assert peer.answers()[-1].code == ResponseCode.SUCCESS
        assert core.timers.count() == len(TIMED) - 1


def test_one_past_timer_keeps_a_whole_piece_in_its_order() -> None:
    past = frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x010\x02", body=b"past")
    late = frame(i=f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS - 1}\x02", body=b"late")
    with running() as (core, peer):
        say(core, peer, TIMED[0] + late + frame(body=b"plain") + past)
        queue = core.store.queues["T", 1]
        stored = [core.store.record(offset) for _, (offset, _, _) in queue.iterate(0)]
        assert [one.body for one in stored if one] == [b"late", b"plain", b"past"]


def test_timers_that_the_timer_log_refuses_are_stored_and_enter_it_later() -> None:
    with running() as (core, peer):
        timers = core.timers
        fault = DiskFault("no room", "timerlog", room=60)
        core.store.fs.faults.add_write(fault)
        say(core, peer, b"".join(TIMED))
        assert fault.hits == 1
        assert {answer.code for answer in peer.answers()} == {ResponseCode.SUCCESS}
        assert timers.count() == len(TIMED)
        assert isinstance(core.clock, VirtualClock)
        core.clock.advance(days=4)
        assert timers.count() == 0
        assert sum(core.store.queues["T", one].max_offset for one in range(4)) == len(TIMED)


def test_an_answer_that_waits_for_the_disk_is_not_given_at_once() -> None:
    with running(config={"flushDiskType": "SYNC_FLUSH"}) as (core, peer):
        plain_sends = core.endpoint.runs
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
        assert core.endpoint.runs is not None
        read = core.endpoint.runs.read
        plain = [
            name for name, piece in SENDS.items() if read(FrameDecoder().feed(piece)[0]) is not None
        ]
        assert plain[:4] == [
            "plain",
            "tags and keys",
            "properties behind the key",
            "no separator at the end",
        ]
        assert {"delay level", "prepared by property", "oneway", "batch"}.isdisjoint(plain)
        assert {"timer", "an instant", "start deliver time", "milliseconds"} <= set(plain)
        assert {"two requests", "a level wins", "a mark", "bad timer"}.isdisjoint(plain)


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
        assert isinstance(core.endpoint.runs, PlainSends)
        assert len(core.endpoint.runs._shapes) <= 1024
        assert len(peer.received) == 3000
