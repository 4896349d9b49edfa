"""How full and how far the timers of a broker are: answers to 28, 45, 60 and 61.

Request 60 answers 56 bytes, the others JSON. Sources: `KVTable`, `DelayOffsetSerializeWrapper`,
`TimerCheckpoint`, `TimerMetrics.TimerMetricsSerializeWrapper`. Must not know who keeps the
numbers: the broker's are in `embedded_broker/timer`.
"""

from __future__ import annotations

import struct
from typing import Final, Self

from attrs import define, evolve, field

from rocketmq_py.errors import RecordError
from rocketmq_py.protocol.bodies.document import Document
from rocketmq_py.protocol.bodies.topics import DataVersion

_FIELDS: Final = struct.Struct(">7q")
_OLD_FIELDS: Final = struct.Struct(">4q")


@define(slots=True)
class TimerCheckpoint:
    """How far a timer store had come; times in epoch milliseconds, all zero in a new store.

    Everything before `last_read_time_ms` is released, before `last_timer_log_flush_pos` synced,
    and every entry of the timer queue below `last_timer_queue_offset` is in the wheel or released.
    The last three numbers are the data version (`TimerCheckpoint` of the original).
    """

    last_read_time_ms: int = 0
    last_timer_log_flush_pos: int = 0
    last_timer_queue_offset: int = 0
    master_timer_queue_offset: int = 0
    state_version: int = 0
    timestamp: int = 0
    counter: int = 0

    def encode(self) -> bytes:
        """Give the 56 bytes: the answer to request 60, and the begin of `config/timercheck`."""
        return _FIELDS.pack(
            self.last_read_time_ms,
            self.last_timer_log_flush_pos,
            self.last_timer_queue_offset,
            self.master_timer_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Self:
        """Read 56 bytes, or the 32 of old brokers. Raises RecordError when there are fewer."""
        if len(data) >= _FIELDS.size:
            return cls(*_FIELDS.unpack_from(data))
        if len(data) >= _OLD_FIELDS.size:
            return cls(*_OLD_FIELDS.unpack_from(data))
        raise RecordError(0, "timer checkpoint", f"{len(data)} bytes, at least 32 are needed")

    def same_positions(self, other: TimerCheckpoint) -> bool:
        """Say whether both name the same read time and positions."""
        return self.encode()[:32] == other.encode()[:32]

    def copy(self) -> Self:
        """Give an independent copy."""
        return evolve(self)


@define
class RuntimeInfo(Document):
    """28: everything a broker says about itself, texts by name."""

    table: dict[str, str] = field(factory=dict)


@define
class DelayOffsets(Document):
    """45: the next queue offset of each delay level, from 1; 4.9 has no `data_version`."""

    data_version: DataVersion | None = None
    offset_table: dict[int, int] = field(factory=dict)


@define
class TimingCount(Document):
    """How many timers of one topic wait, and when that number changed last (epoch ms)."""

    count: int = 0
    time_stamp: int = 0


@define
class TimerCounts(Document):
    """61: the waiting timers by real topic."""

    data_version: DataVersion = field(factory=DataVersion)
    timing_count: dict[str, TimingCount] = field(factory=dict)
