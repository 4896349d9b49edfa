"""Progress of a sliced store: its part of `config/delayOffset.json`.

Answers: what is saved so that the next life, or another node, goes on from there. The document
that the engine follows names three keys: `sliceDelayOffset` (the next entry of the inbound queue),
`sliceCurrentTime` (the first second that is not fully fired, in epoch milliseconds) and
`timeSliceLength` (seconds). The others are ours:

* `sliceInbound`: topic and queue that the offset is about, saved before the first timer arrives,
* `sliceEnds`: by slice, where its log ended when the offset was taken; all before is durable. Less
  while entries behind the offset have their records in the log already,
* `sliceSums`: by slice, how many records and which CRC its log had up to which end,
* `sliceReleaseScanPos`: every release of a timer that is not accounted for by the current time
  lies in the commit log at or behind this offset,
* `sliceLate`: entries below the offset that still wait although their second is over,
* `sliceClean`: end of the commit log and counter of the counts after a clean stop.

Must not know: how any of it comes about. Read on: `flush.py`, `recovery.py`, `roles.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from embedded_broker.timer.delay_offsets import SLICE_DELAY_OFFSET, SLICE_INBOUND
from embedded_broker.timer.slices.dcommit_log import SliceSum
from embedded_broker.timer.slices.record import SECOND_MS

CURRENT_TIME: Final = "sliceCurrentTime"
SLICE_LENGTH: Final = "timeSliceLength"
ENDS: Final = "sliceEnds"
SUMS: Final = "sliceSums"
SCAN_POS: Final = "sliceReleaseScanPos"
LATE: Final = "sliceLate"
CLEAN: Final = "sliceClean"


@frozen(kw_only=True)
class SliceProgress:
    """What one flush saved. `length` is the slice's length in seconds."""

    delay_offset: int
    current_second: int
    length: int
    inbound: tuple[str, int]
    ends: Mapping[int, int] = field(factory=dict)
    sums: Mapping[int, SliceSum] = field(factory=dict)
    scan_pos: int = 0
    late: frozenset[int] = frozenset()
    clean: tuple[int, int] | None = None

    def to_table(self) -> dict[str, Any]:  # JSON values
        """Give the keys as they are stored."""
        return {
            SLICE_DELAY_OFFSET: self.delay_offset,
            CURRENT_TIME: self.current_second * SECOND_MS,
            SLICE_LENGTH: self.length,
            SLICE_INBOUND: list(self.inbound),
            ENDS: dict(self.ends),
            SUMS: {number: list(one) for number, one in self.sums.items()},
            SCAN_POS: self.scan_pos,
            LATE: sorted(self.late),
            CLEAN: None if self.clean is None else list(self.clean),
        }

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "SliceProgress | None":
        """Read the keys; None when the document's three are missing or no numbers.

        Of the others a missing or unreadable one counts as never saved: then more is looked at.
        """
        offset, current, length = (
            _number(table.get(name)) for name in (SLICE_DELAY_OFFSET, CURRENT_TIME, SLICE_LENGTH)
        )
        if offset is None or current is None or not length:
            return None
        ends, late = table.get(ENDS), table.get(LATE)
        return cls(
            delay_offset=offset,
            current_second=current // SECOND_MS,
            length=length,
            inbound=_inbound(table.get(SLICE_INBOUND)),
            ends={
                int(number): end
                for number, end in (ends if isinstance(ends, dict) else {}).items()
                if str(number).isdecimal() and _number(end) is not None
            },
            sums=_sums(table.get(SUMS)),
            scan_pos=_number(table.get(SCAN_POS)) or 0,
            late=frozenset(
                one for one in (late if isinstance(late, list) else ()) if isinstance(one, int)
            ),
            clean=_pair(table.get(CLEAN)),
        )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _sums(value: Any) -> dict[int, SliceSum]:
    return {
        int(number): SliceSum(*one)
        for number, one in (value if isinstance(value, dict) else {}).items()
        if str(number).isdecimal()
        and isinstance(one, list)
        and len(one) == len(SliceSum._fields)
        and all(_number(part) is not None for part in one)
    }


def _inbound(value: Any) -> tuple[str, int]:
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], int):
        return str(value[0]), value[1]
    return "", 0


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and [type(one) for one in value] == [int, int]:
        return value[0], value[1]
    return None
