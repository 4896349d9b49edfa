"""The file `config/delayOffset.json`: how far levels and time slices have come.

Answers: how two writers share one file, and what neither of them knows stays in it. The delay
levels own `dataVersion` and `offsetTable`, as in
`org.apache.rocketmq.broker.schedule.ScheduleMessageService`; the sliced engine owns the keys that
begin with `slice` and `timeSliceLength`. Each saves its own part, and everything else in the file
is written back as it was found. Must not know: what the parts mean.

Read on: `levels/service.py`, `slices/progress.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

from embedded_broker.errors import StoreDamagedError
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem

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

    With ``skip_damage`` a file that cannot be read counts as missing, and ``problem`` says so.

    >>> from embedded_broker.store.memory_fs import MemoryFileSystem
    >>> fs = MemoryFileSystem()
    >>> DelayOffsetFile(fs).save({"offsetTable": {3: 7}})
    >>> DelayOffsetFile(fs).save({"sliceDelayOffset": 5})
    >>> sorted(DelayOffsetFile(fs).load())
    ['offsetTable', 'sliceDelayOffset']
    """

    def __init__(self, fs: FileSystem, *, skip_damage: bool = False) -> None:
        self._file = JsonConfigFile(fs, OFFSETS_FILE)
        self._skip_damage = skip_damage
        self._content: dict[str, Any] | None = None  # Any: JSON, each writer checks its part

    @property
    def path(self) -> str:
        """Where it lies in the store."""
        return self._file.path

    @property
    def problem(self) -> str | None:
        """What was wrong with the file when it was read."""
        return self._file.problem

    def load(self) -> dict[str, Any]:  # a JSON edge: whoever reads a key checks its shape
        """Give everything in the file; empty when there is none.

        Raises ``StoreDamagedError`` when it cannot be read, unless that may be skipped.
        """
        if self._content is None:
            content = _with_bare_keys(self._file.load(skip_damage=self._skip_damage) or {})
            levels = content.get("offsetTable") or {}
            if not all(isinstance(one, int) for pair in levels.items() for one in pair):
                self._file.problem = f"{self.path}: offsetTable is no table of levels and offsets"
                if not self._skip_damage:
                    raise StoreDamagedError(self._file.problem)
                content = {}
            self._content = content
            if self._file.problem is not None:
                self._file.problem += ". Messages of delay levels may be delivered again"
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
