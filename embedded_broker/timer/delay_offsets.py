"""The file `config/delayOffset.json`: how far levels and time slices have come.

Answers: how two writers share one file, and what neither of them knows stays in it. The delay
levels own `dataVersion` and `offsetTable`, as in
`org.apache.rocketmq.broker.schedule.ScheduleMessageService`; the sliced engine owns the keys that
begin with `slice` and `timeSliceLength`. Each saves its own part, and everything else in the file
is written back as it was found. Must not know: what the parts mean.

Read on: `levels/service.py`, `slices/progress.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem

__all__ = [
    "OFFSETS_FILE",
    "SLICE_DELAY_OFFSET",
    "SLICE_INBOUND",
    "SLICE_WHEEL_END",
    "DelayOffsetFile",
]

OFFSETS_FILE: Final = "config/delayOffset.json"
SLICE_DELAY_OFFSET: Final = "sliceDelayOffset"
"""The next entry of the sliced engine's queue to be sent on its way."""
SLICE_INBOUND: Final = "sliceInbound"
"""That queue: topic and number. It also tells whose timers the store holds: the wheel's own topic
stands here when the wheel has taken the store over."""
SLICE_WHEEL_END: Final = "sliceWheelEnd"
"""Where the wheel's queue ended when the sliced engine took the store over: what lies before it
does not wait."""


class DelayOffsetFile:
    """One broker's file; its writers share the object. Saves come one at a time.

    >>> from embedded_broker.store.memory_fs import MemoryFileSystem
    >>> fs = MemoryFileSystem()
    >>> DelayOffsetFile(fs).save({"offsetTable": {3: 7}})
    >>> DelayOffsetFile(fs).save({"sliceDelayOffset": 5})
    >>> sorted(DelayOffsetFile(fs).load())
    ['offsetTable', 'sliceDelayOffset']
    """

    def __init__(self, fs: FileSystem) -> None:
        self._file = JsonConfigFile(fs, OFFSETS_FILE)
        self._content: dict[str, Any] | None = None  # Any: JSON, each writer checks its part

    @property
    def path(self) -> str:
        """Where it lies in the store."""
        return self._file.path

    def load(self) -> dict[str, Any]:  # a JSON edge: whoever reads a key checks its shape
        """Give everything in the file; empty when there is none, or none that can be read."""
        if self._content is None:
            found = self._file.load()
            self._content = _with_bare_keys(found) if isinstance(found, dict) else {}
        return dict(self._content)

    def save(self, part: Mapping[str, Any]) -> None:
        """Write the file anew with these keys changed. Raises StoreError; then nothing changed."""
        content = {**self.load(), **part}
        self._file.save(content)
        self._content = content


def _with_bare_keys(value: Any) -> Any:
    """Make keys that are numbers integers again: they are written without quotes, as Java does."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, str) and key.isdecimal() for key in value):
        return {int(key): _with_bare_keys(one) for key, one in value.items()}
    return {key: _with_bare_keys(one) for key, one in value.items()}
