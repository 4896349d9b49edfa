"""The short way for sends that ask for one time and nothing else: nearly all timers.

Answers: what of such a request is the same in many, how those of one piece of the stream are stored
as a run of the timer topic, and what each is answered, its recall handle included. Must not know:
the rules of delays, which admission keeps (`embedded_broker/timer/run.py` learns from it what they
come to), or files. Read on: `plain_sends.py`, which reads the requests.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.remoting.connection import Connection
from embedded_broker.remoting.handlers.send.ready_answers import SAMPLE_KEY, answer_pattern
from embedded_broker.remoting.handlers.send.send_message import SendMessageProcessor
from embedded_broker.store.inner import InnerMessage, PutResult
from embedded_broker.timer.admission import timer_tail
from embedded_broker.timer.run import SAMPLE_NUMBERS, TimedShape, TimerRun
from rocketmq_py.protocol.delay import (
    LEGACY_DELAY_PROPERTIES,
    TIMER_BOOKKEEPING_PROPERTIES,
    Delay,
)
from rocketmq_py.protocol.handles import encode_recall_handle
from rocketmq_py.protocol.properties import Prop, decode_properties

if TYPE_CHECKING:
    from embedded_broker.remoting.handlers.send.plain_sends import Place, PlainSend

__all__ = ["SHAPES_MAX", "SHAPE_SIZE_MAX", "UNIQ_KEY_NAME", "TimedSends", "without_number"]

UNIQ_KEY_NAME: Final = f"{Prop.UNIQ_KEY}\1"
SHAPES_MAX: Final = 1024
SHAPE_SIZE_MAX: Final = 512
"""So many texts around a UNIQ_KEY are remembered, and none that is longer."""

# A number of up to 15 digits fits 64 bits as milliseconds, in seconds too.
_request: Final = re.compile(
    f"(?:{'|'.join(sorted(LEGACY_DELAY_PROPERTIES))})\1([1-9][0-9]{{0,14}})(?=\2|$)"
).search
_GAP: Final = "\0"
"""What stands for the number in a text; a property that is stored never holds it."""
_NOT_TIMED: Final = TIMER_BOOKKEEPING_PROPERTIES | {Prop.DELAY, Prop.TRAN_MSG, Prop.POP_CK}
_HANDLE: Final = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="


def without_number(text: str) -> tuple[str, str]:
    """Take the number of the first request for a time out of properties, and give both."""
    found = _request(text)
    if found is None:
        return text, ""
    start, end = found.span(1)
    return f"{text[:start]}{_GAP}{text[end:]}", found[1]


class TimedSends:
    """Learns, stores and answers sends that ask for one time. Used under the door."""

    def __init__(self, core: BrokerCore, ordinary: SendMessageProcessor) -> None:
        self._core = core
        self._store = core.store
        self._runs = core.timers.runs
        self._ordinary = ordinary
        self._shapes: dict[tuple[str, str], TimedShape | None] = {}
        self._answer = b""

    def forget(self) -> None:
        """Begin anew: a setting that answers or properties depend on may have changed."""
        self._shapes.clear()
        self._answer = answer_pattern(self._core, self._ordinary, _HANDLE)

    def shape(self, before: str, after: str) -> TimedShape | None:
        """Give what is stored for properties with this around their UNIQ_KEY and number.

        None when they ask for something else as well, or must be looked at one by one.
        """
        shapes, key = self._shapes, (before, after)
        if key in shapes:
            return shapes[key]
        shape = self._learn(before, after)
        if len(shapes) >= SHAPES_MAX:
            shapes.clear()
        if len(before) + len(after) <= SHAPE_SIZE_MAX:
            shapes[key] = shape
        return shape

    def _learn(self, before: str, after: str) -> TimedShape | None:
        pattern = f"{before}{UNIQ_KEY_NAME}{SAMPLE_KEY}\2{after}"
        if self._runs is None or pattern.count(_GAP) != 1:
            return None
        for number in SAMPLE_NUMBERS:
            if number in pattern or pattern.count(SAMPLE_KEY) != 1:
                continue
            text = pattern.replace(_GAP, number)
            properties = decode_properties(text)
            if not _NOT_TIMED.isdisjoint(properties) or properties.get(Prop.UNIQ_KEY) != SAMPLE_KEY:
                return None
            stored = self._ordinary.stored_properties(properties, text)
            sample = InnerMessage("T", 0, b"", properties, properties_bytes=stored)
            shape = self._runs.learn(sample, SAMPLE_KEY, number)
            if shape is not None:
                return shape
        return None

    def put(
        self,
        connection: Connection,
        sends: "Sequence[PlainSend]",
        places: "Sequence[Place] | None",
    ) -> "Iterator[tuple[PlainSend, bytes]] | None":
        """Store sends as a run; give each with the header of its answer.

        None when nothing is stored, because one of them must go the ordinary way: then all go, so
        that they keep their order.
        """
        runs, now_ms = self._runs, self._store.clock.now_ms
        if runs is None or places is None:
            return None
        sys_flag, instants = places[0].sys_flag, False
        items: list[tuple[int, int, bytes, bytes, int]] = []
        slots: list[int] = []
        for send, place in zip(sends, places, strict=True):
            shape = send.timed
            if shape is None or place.sys_flag != sys_flag:
                return None
            kind = shape.kind
            slot_ms = runs.slot_of(Delay(kind, int(send.number)), now_ms)
            if slot_ms is None:
                return None
            instants = instants or not kind.is_relative
            slots.append(slot_ms)
            flag, born, body, _, code = send.item
            properties = shape.stored(send.unique_key, send.number.encode()) + timer_tail(
                slot_ms, place.topic.topic_name, place.queue_id
            )
            items.append((flag, born, body, properties, code))
        if not self._store.hooks_ignore_timers(now_ms, instants=instants):
            return None
        timer_topic = self._core.timers.topic
        run = TimerRun(
            timer_topic,
            0,
            items,
            sys_flag,
            connection.packed_remote,
            out_ms=slots,
            real_topics=[place.topic.topic_name for place in places],
        )
        result = self._store.put(run, now_ms=now_ms)
        if not result.ok:
            return None
        return self._answers(sends, places, slots, result)

    def _answers(
        self,
        sends: "Sequence[PlainSend]",
        places: "Sequence[Place]",
        slots: Sequence[int],
        result: PutResult,
    ) -> "Iterator[tuple[PlainSend, bytes]]":
        """Give the header of each answer; the time of a recall handle is one more than the slot."""
        answer, broker_name = self._answer, self._core.broker_name.encode()
        queue_offset = result.queue_offset
        for send, place, slot_ms, offset in zip(sends, places, slots, result.offsets, strict=True):
            handle = encode_recall_handle(
                place.topic.topic_name.encode(), broker_name, slot_ms + 1, send.unique_key
            )
            yield (
                send,
                answer
                % (offset, place.queue_id, queue_offset, send.unique_key, handle, send.opaque),
            )
            queue_offset += 1
