"""Timer run: timers that came together are accepted, stored and entered into the wheel as one.

Answers: which sends differ in nothing but UNIQ_KEY, time and place, so that what admission makes of
one of them is known for all. Nothing of its rules is written here: one sample goes through it, and
what comes out is the pattern (`TimedShape`). Must not know: requests, connections, files.

Read on: `embedded_broker/core/send_shapes.py` for who asks, `admission.py` for
the rules, `timer/wheel/enqueue.py` for how a run enters the wheel.
"""

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

from attrs import define

from embedded_broker.store.message_run import MessageRun
from embedded_broker.store.put_values import InnerMessage
from embedded_broker.timer.admission import Admission, timer_tail
from rocketmq_py.protocol.delay import DelayKind
from rocketmq_py.protocol.tag_hash import tags_code

SAMPLE_NUMBERS: Final = ("918273645546372", "98765431", "86413", "98765437", "86417")
"""Instants, milliseconds and seconds that stand in a sample for the time asked for.

Each is within the usual limits as one of the three, and hardly ever part of anything else.
"""
_RELATIVE_NOW_MS: Final = 1_700_000_000_000
_ANY_DELAY_MS: Final = 1000


class TimedShape(NamedTuple):
    """What is stored of messages that differ only in UNIQ_KEY and the number of their request.

    `template` is to be filled with what `parts` picks of (key, number), both as bytes; the
    `timer_tail` follows.
    """

    template: bytes
    parts: Callable[[tuple[bytes, bytes]], tuple[bytes, ...]]
    kind: DelayKind
    tags_code: int

    def stored(self, key: bytes, number: bytes) -> bytes:
        """Give the properties of one message up to its `timer_tail`."""
        return self.template % self.parts((key, number))


@define(slots=True, eq=False, kw_only=True)
class TimerRun(MessageRun):
    """Messages for the timer topic: timers and no marks, none of which was rolled or moved.

    The lists are their slots and real topics.
    """

    out_ms: Sequence[int]
    real_topics: Sequence[str]

    is_admitted = True


class TimerRuns:
    """What an engine offers that takes runs; `topic` is that in which its timers lie."""

    def __init__(self, admission: Admission, topic: str) -> None:
        self._admission = admission
        self._topic = topic
        self.slot_of = admission.slot_of
        """Gives the slot of a request that is accepted now; None if it is past or too far away."""

    def learn(self, sample: InnerMessage, key: str, number: str) -> TimedShape | None:
        """Find out what is stored for messages like this one; None if each must be looked at.

        A sample goes through admission: what of it depends on its key and its number is seen there.
        """
        delay = self._admission.kind_of(sample.properties)
        if delay is None or delay.text != number:
            return None  # another property decides
        now_ms = _RELATIVE_NOW_MS if delay.kind.is_relative else delay.value - _ANY_DELAY_MS
        slot_ms = self._admission.slot_of(delay, now_ms)
        topic, queue_id = sample.topic, sample.queue_id
        code = tags_code(sample.properties.get("TAGS"))
        if (
            slot_ms is None
            or self._admission.before_put(sample, now_ms) is not None
            or sample.topic != self._topic
            or sample.properties_bytes is None
        ):
            return None
        tail = timer_tail(slot_ms, topic, queue_id)
        head = sample.properties_bytes.removesuffix(tail)
        pieces = re.split(f"({key}|{number})".encode(), head)
        order = [0 if piece == key.encode() else 1 for piece in pieces[1::2]]
        if head == sample.properties_bytes or {0, 1} != set(order):
            return None
        template = b"%b".join(piece.replace(b"%", b"%%") for piece in pieces[::2])
        return TimedShape(template, itemgetter(*order), delay.kind, code)
