"""Unsynced messages: what a broker had accepted and not synced when it crashed.

Answers: how many messages and timers are gone after a power loss. Recovery cannot know: bytes that
are not there tell nothing. But a crash that a test asked for can be looked at before. Must not
know: how bytes are lost, how a store recovers. Read on: ``running_brokers.py`` for when it is
asked, ``recovery_report.py`` for who is told.
"""

from bisect import bisect_left

from attrs import frozen

from embedded_broker.lifecycle.parts import BrokerParts
from embedded_broker.timer.request import source_offset
from rocketmq_py.protocol.message_codec import MessageRecord
from rocketmq_py.protocol.names import OP_HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketmq_py.protocol.properties import Prop


@frozen(kw_only=True)
class Lost:
    """How many messages and timers are gone."""

    messages: int = 0
    timers: int = 0


@frozen
class Unsynced:
    """Commit-log offsets of what was accepted behind the last sync, in rising order."""

    messages: tuple[int, ...]
    timers: tuple[int, ...]

    def lost(self, log_end: int) -> Lost:
        """Count what lies behind the end of the log that was recovered."""
        return Lost(
            messages=len(self.messages) - bisect_left(self.messages, log_end),
            timers=len(self.timers) - bisect_left(self.timers, log_end),
        )


def look_at_unsynced(parts: BrokerParts) -> Unsynced:
    """Find what is not synced. Before the files are given back, when nobody writes any more."""
    messages: list[int] = []
    timers: list[int] = []
    timer_topics = {TIMER_TOPIC, SCHEDULE_TOPIC, parts.timers.topic}
    store = parts.store
    for record in store.log.scan(store.flushed_offset, check_crc=False):
        if record.topic in timer_topics:
            if _is_accepted(record):
                timers.append(record.commit_log_offset)
        elif record.topic != OP_HALF_TOPIC and not _has_waited(record):
            messages.append(record.commit_log_offset)
    return Unsynced(tuple(messages), tuple(timers))


def _is_accepted(record: MessageRecord) -> bool:
    """Say whether this is a timer, and not a recall or a further hop of an earlier one."""
    properties = record.properties
    return not (
        Prop.TIMER_DEL_UNIQKEY in properties
        or Prop.TIMER_ROLL_TIMES in properties
        or source_offset(properties) is not None
    )


def _has_waited(record: MessageRecord) -> bool:
    """Say whether it is a copy of a timer: without it the timer is released once more."""
    properties = record.properties
    return Prop.REAL_TOPIC in properties or Prop.TIMER_OUT_MS in properties
