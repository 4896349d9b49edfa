"""What sends of known shapes leave behind and are answered is what a look at each comes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.send_shapes import SHAPES_MAX
from embedded_broker.core.send_values import Incoming, Terms
from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.remoting.handlers.send.send_header import SendHeader
from embedded_broker.store.fault_points import DiskFault
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.wheel.engine import TimerMessageStore
from rocketmq_py.errors import HeaderError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.frame import FrameDecoder, encode_frame
from tests.golden.sends import PROPERTIES, START_MS, Peer, frame
from tests.golden.sends import SENDS as CASES
from tests.short_form import short_form


def find_none(at: int, message: Incoming) -> None:
    """Know no shape."""
    del at, message


@contextmanager
def running(*, remembers: bool = True, **arguments: Any) -> Iterator[tuple[BrokerParts, Peer]]:
    """A broker on a frozen clock with topic T, and a peer of it."""
    clock = VirtualClock(start=datetime.fromtimestamp(START_MS / 1000, UTC))
    with EmbeddedBroker(
        clock=clock, session_clock=clock, tcp=False, topics=["T"], seed=5, **arguments
    ) as broker:
        node = broker.slot.node
        assert node is not None
        if not remembers:
            node.parts.send.produce._shapes.find = find_none  # type: ignore[method-assign]
        peer = Peer()
        node.parts.endpoint.connected(peer)
        yield node.parts, peer


def say(parts: BrokerParts, peer: Peer, *pieces: bytes) -> None:
    for piece in pieces:
        parts.endpoint.receive(peer, FrameDecoder().feed(piece))


def timers_of(parts: BrokerParts) -> dict[str, object]:
    """What the timer engine has: log bytes, slots, counts, pointers and what is in memory."""
    timers = parts.timers
    found: dict[str, object] = {
        "metrics": timers.metrics.snapshot(),
        "stages": {
            name: (one.queue_depth, one.counters)
            for name, one in timers.stages.items()
            if "Flush" not in name  # flushes come when they come
        },
        "delayed": parts.store.delayed_puts,
    }
    if isinstance(timers, TimerMessageStore):
        state = timers._state
        found |= {
            "timer log": bytes(state.log.read_bytes(0)) if state.log.end else b"",
            "wheel": list(state.wheel.used_slots()),
            "next": state.wheel.next_waiting(state.curr_read_ms),
            "waiting": (bytes(state.wheel._waiting),),
            "pointers": (state.curr_queue_offset, state.curr_write_ms, state.curr_read_ms),
            "front": sorted(state.due_heap.heap),
        }
    return found


def outcome(
    pieces: Sequence[bytes], *, advance_s: float = 0, **arguments: Any
) -> dict[str, object]:
    """Everything that requests leave behind: answers, log, queues, journal, timers."""
    with running(**arguments) as (parts, peer):
        assert isinstance(parts.clock, VirtualClock)
        for piece in pieces:
            say(parts, peer, piece)
            parts.clock.advance(0)  # else the driver's thread does what is due now, at some time
        if advance_s:
            parts.clock.advance(advance_s)
        queues = parts.store.queues.items()
        journal = [
            (entry.code, entry.fields, entry.body_size) for entry in parts.journal.requests()
        ]
        node = parts.address.partition(":")[0]  # numbered, so each broker has another
        return {
            "answers": [one.replace(node.encode(), b"node") for one in peer.received],
            "log": bytes(parts.store.log.files.read_file_from(0)),
            "queues": {key: list(queue.iterate(0)) for key, queue in queues},
            "journal": journal,
            "told": [
                (one.response_code, (one.remark or "").replace(node, "node"))
                for one in parts.journal.requests()
            ],
            "timers": timers_of(parts),
        }


SENDS: Final = {name: frame(**fields) for name, fields in CASES.items()} | {
    "batch of code 310": frame(m="true"),
    "opaque of 64 bits": frame(2**40),
    "an answer": frame(head={"flag": 1}),
    "another code behind": frame(head={"code": 310}) + frame(8, b="T", e="2"),
    "no JSON": encode_frame(0, b'{"code":310,', b"x"),
}


@pytest.mark.parametrize("name", SENDS)
@pytest.mark.parametrize(
    "arguments",
    short_form([{}, {"profile": "rocketmq-4.9"}, {"defaults": "upstream"}], lambda one: not one),
)
def test_both_ways_end_alike(name: str, arguments: dict[str, Any]) -> None:
    pieces = [SENDS["plain"], SENDS[name], SENDS[name], SENDS["plain"]]
    short = outcome(pieces, **arguments)
    assert short == outcome(pieces, remembers=False, **arguments)


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
    assert short == outcome(pieces, config=config, remembers=False)


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
    assert short == outcome(pieces, config=config, advance_s=advance_s, remembers=False)


def test_a_timer_is_recalled_by_the_handle_that_the_short_way_gives() -> None:
    with running() as (parts, peer):
        say(parts, peer, b"".join(TIMED))
        handle = peer.answers()[0].ext_fields["recallHandle"]
        fields = {"producerGroup": "G", "topic": "T", "recallHandle": handle}
        say(parts, peer, RemotingCommand(RequestCode.RECALL_MESSAGE, ext_fields=fields).encode())
        assert peer.answers()[-1].code == ResponseCode.SUCCESS
        assert parts.timers.count() == len(TIMED) - 1


def test_one_past_timer_keeps_a_whole_piece_in_its_order() -> None:
    past = frame(i=f"{PROPERTIES}TIMER_DELAY_MS\x010\x02", body=b"past")
    late = frame(i=f"{PROPERTIES}TIMER_DELIVER_MS\x01{START_MS - 1}\x02", body=b"late")
    with running() as (parts, peer):
        say(parts, peer, TIMED[0] + late + frame(body=b"plain") + past)
        queue = parts.store.queues["T", 1]
        stored = [parts.store.record(offset) for _, (offset, _, _) in queue.iterate(0)]
        assert [one.body for one in stored if one] == [b"late", b"plain", b"past"]


def test_timers_that_the_timer_log_refuses_are_stored_and_enter_it_later() -> None:
    with running() as (parts, peer):
        timers = parts.timers
        fault = DiskFault("no room", "timerlog", room=60)
        parts.store.fs.faults.add_write(fault)
        say(parts, peer, b"".join(TIMED))
        assert fault.hits == 1
        assert {answer.code for answer in peer.answers()} == {ResponseCode.SUCCESS}
        assert timers.count() == len(TIMED)
        assert isinstance(parts.clock, VirtualClock)
        parts.clock.advance(days=4)
        assert timers.count() == 0
        assert sum(parts.store.queues["T", one].max_offset for one in range(4)) == len(TIMED)


def test_an_answer_that_waits_for_the_disk_is_not_given_at_once() -> None:
    with running(config={"flushDiskType": "SYNC_FLUSH"}) as (parts, peer):
        parts.durability.request_flush = lambda: None
        say(parts, peer, SENDS["plain"] + SENDS["timer"] + SENDS["a topic that cannot be"])
        assert [answer.code for answer in peer.answers()] == [29]
        parts.store.begin_flush().run()
        with parts.door:
            parts.durability.synced()
        assert [answer.code for answer in peer.answers()] == [29, 0, 0]


@pytest.mark.parametrize("text", ["WAIT\x01true\x02", "XUNIQ_KEY\x01AB\x02", None])
def test_a_message_without_an_id_gets_one(text: str | None) -> None:
    with running() as (parts, peer):
        say(parts, peer, SENDS["plain"], frame(8, i=text))
        assert len(peer.answers()[1].ext_fields["transactionId"]) == 32


def message_of(name: str) -> Incoming | None:
    """The message of a case, None if its header cannot be read."""
    frame = FrameDecoder().feed(SENDS[name])[0]
    with suppress(HeaderError):
        return SendHeader(short=True).message(RemotingCommand.decode(frame))
    return None


def test_only_what_differs_in_key_and_number_has_a_shape() -> None:
    with running() as (parts, _):
        find = parts.send.produce._shapes.find
        sends = {name: message_of(name) for name in SENDS}
        shaped = [name for name, send in sends.items() if send and find(0, send)]
        assert shaped[:4] == [
            "plain",
            "tags and keys",
            "properties behind the key",
            "no separator at the end",
        ]
        assert {"delay level", "prepared by property", "batch"}.isdisjoint(shaped)
        assert {"timer", "an instant", "start deliver time", "milliseconds"} <= set(shaped)
        assert {"two requests", "a level wins", "a mark", "bad timer"}.isdisjoint(shaped)
        assert sends["delay level"] is not None
        assert sends["no topic"] is sends["no JSON"] is None


PIECES: Final = ("UNIQ_KEY\1", "X", "AB12", "\2", "\1", "TIMER_DELAY_MS\1", "5000", "DEL", "K\1v\2")


def test_the_text_before_changes_nothing_about_the_next_one() -> None:
    first, number = "UNIQ_KEY\1AB12\2", "TIMER_DELAY_MS\x015000\2"

    with running() as (parts, _):
        shapes = parts.send.produce._shapes

        @settings(max_examples=300, deadline=None)
        @given(texts=st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map("".join)))
        @example([f"{first}{number}", f"{first}X\2{number}"])
        @example([f"{first}{number}", f"UNIQ_KEY\1XXXXX\2{number}"])
        @example([f"K\1AB12\2{first}{number}", f"K\1CD34\2{first}{number}"])
        def check(texts: list[str]) -> None:
            for text in [f"UNIQ_KEY\1CD\2{number}", *texts, *texts]:
                message = Incoming("T", b"x", text, 1, Terms(0))
                after_others = shapes.find(0, message)
                shapes._last = None
                assert after_others == shapes._find(0, message)

        check()


def test_sends_in_one_piece_keep_their_order_in_each_queue_and_are_all_answered() -> None:
    with running() as (parts, peer):
        piece = b"".join(frame(n, body=b"%d" % n, e=str(n % 3)) for n in range(150))
        say(parts, peer, piece)
        answers = {answer.opaque: answer for answer in peer.answers()}
        assert sorted(answers) == list(range(150))
        for number, answer in answers.items():
            assert answer.code == ResponseCode.SUCCESS
            assert answer.ext_fields["queueId"] == str(number % 3)
            assert answer.ext_fields["queueOffset"] == str(number // 3)
        for queue_id in range(3):
            queue = parts.store.queues["T", queue_id]
            stored = [parts.store.record(offset) for _, (offset, _, _) in queue.iterate(0)]
            assert [one.body for one in stored if one] == [
                b"%d" % n for n in range(queue_id, 150, 3)
            ]


def test_other_requests_between_sends_see_what_came_before_them() -> None:
    ask = RemotingCommand(
        RequestCode.GET_MAX_OFFSET, opaque=50, ext_fields={"topic": "T", "queueId": "1"}
    )
    with running() as (parts, peer):
        say(parts, peer, frame(1) + frame(2) + ask.encode() + frame(3))
        answers = {answer.opaque: answer for answer in peer.answers()}
        assert answers[50].ext_fields["offset"] == "2"
        assert answers[3].ext_fields["queueOffset"] == "2"


def test_sends_before_a_broken_header_are_stored_and_the_connection_ends() -> None:
    with running() as (parts, peer):
        say(parts, peer, frame(1) + SENDS["no JSON"] + frame(2))
        assert parts.store.queues["T", 1].max_offset == 1
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
    with running() as (parts, peer):
        hook = _Curious()
        say(parts, peer, frame(1, body=b"before"))
        parts.store.hooks.listed.append(hook)
        say(parts, peer, frame(2, body=b"then"))
        assert hook.seen == [b"then"]
        assert parts.store.queues["T", 1].max_offset == 2


def test_a_changed_setting_counts_from_the_next_send_on() -> None:
    with running() as (parts, peer):
        say(parts, peer, frame(1))
        parts.config.update(regionId="elsewhere")
        say(parts, peer, frame(2))
        regions = [answer.ext_fields["MSG_REGION"] for answer in peer.answers()]
        assert regions == ["DefaultRegion", "elsewhere"]
        record = parts.store.record(parts.store.queues["T", 1].entry(1)[0])  # type: ignore[index]
        assert record is not None
        assert record.properties["MSG_REGION"] == "elsewhere"


def test_a_topic_that_loses_its_write_bit_refuses_the_next_send() -> None:
    with running() as (parts, peer):
        say(parts, peer, frame(1))
        with parts.door:
            topic = parts.tables.topics.get("T")
            assert topic is not None
            document = topic.to_document()
            parts.tables.topics.put(type(topic).from_document({**document, "perm": 4}))
        say(parts, peer, frame(2))
        assert [answer.code for answer in peer.answers()] == [
            ResponseCode.SUCCESS,
            ResponseCode.NO_PERMISSION,
        ]


def test_what_is_remembered_is_bounded() -> None:
    with running() as (parts, peer):
        for start in range(0, 3000, 100):
            sends = [frame(n, i=f"KEYS\x01k{n}\x02{PROPERTIES}") for n in range(start, start + 100)]
            say(parts, peer, b"".join(sends))
        assert len(parts.send.produce._shapes._plain) <= SHAPES_MAX
        assert len(peer.received) == 3000
