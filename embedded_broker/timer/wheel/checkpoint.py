"""Check points of the timer store: the two small files that recovery starts from.

Answers: which positions were durable at the last flush. `config/timercheck` is RocketMQ's own
(`org.apache.rocketmq.store.timer.TimerCheckpoint`: 4096 bytes, 56 used); `config/timermeta` is
ours, JSON that a real broker ignores: what timercheck has no room for, and a copy of it in case
it is lost. The 56 bytes are also what request 60 answers: their codec is `TimerCheckpoint` in
`rocketmq_py.protocol.bodies.timers`. Must not know: how positions come about.

Read on: `engine.py` for the order in which they are written, `recovery.py` for how they are used.
"""

from typing import Final
from zlib import crc32

from attrs import astuple, frozen

from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.store.damaged_folder import set_aside
from embedded_broker.store.fs import FileSystem, Segment
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.timers import TimerCheckpoint
from rocketmq_py.protocol.json_text import dumps, loads

_LOG = get_logger(__name__)

CHECKPOINT_SIZE: Final = 4096
_USED: Final = 56
_CHECK_SUM: Final = b'{"checkSum":"%08x",'
_CHECKPOINT_KEYS: Final = {
    "lastReadTimeMs": "last_read_time_ms",
    "lastTimerLogFlushPos": "last_timer_log_flush_pos",
    "lastTimerQueueOffset": "last_timer_queue_offset",
    "masterTimerQueueOffset": "master_timer_queue_offset",
    "stateVersion": "state_version",
    "timestamp": "timestamp",
    "counter": "counter",
}
"""Keys of the check point's copy in timermeta, and the fields that they hold."""


class TimerCheckpointFile:
    """The file behind it."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._segment: Segment | None = None

    def load(self) -> TimerCheckpoint | None:
        """Give what is stored; None when the file is missing or was never written.

        Raises StoreDamagedError for a file of another length; a `write` then sets it aside.
        """
        length = self._length()
        if length == 0:
            return None
        if length != CHECKPOINT_SIZE:
            text = f"{self._path} has {length} instead of {CHECKPOINT_SIZE} bytes"
            raise StoreDamagedError(text)
        data = self._open().read(0, _USED)
        return TimerCheckpoint.decode(data) if any(data) else None

    def write(self, checkpoint: TimerCheckpoint) -> None:
        """Store it durably."""
        segment = self._open()
        segment.write(0, checkpoint.encode())
        segment.sync()

    def close(self) -> None:
        """Give the file back."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _length(self) -> int:
        return self._fs.size(self._path) if self._fs.exists(self._path) else 0

    def _open(self) -> Segment:
        if self._segment is None:
            if self._length() not in {0, CHECKPOINT_SIZE}:
                set_aside(self._fs, self._path)
            self._segment = self._fs.open_segment(self._path, CHECKPOINT_SIZE)
        return self._segment


@frozen
class WheelSeal:
    """Check sums at a clean stop: of the wheel, and of the log from `log_begin` to `log_end`."""

    wheel: int
    log_begin: int
    log_end: int
    log: int


@frozen(kw_only=True)
class TimerMeta:
    """What timermeta says.

    `release_scan_pos`: everything released from unfinished slots lies in the commit log at or
    behind it. `displaced_until_ms`: up to this slot timers of earlier slots may lie, because the
    clock had been set back. `wheel_covered_pos`: the wheel file knows every earlier record,
    and recovery can find by a search which of those it has to read.
    `clean_end`: commit-log end, TimerLog end and version counter of timermetrics at a clean stop;
    while all three are found again, those counts are exact. `removed`: offsets of timers of
    unfinished slots that a mark removed; unlike a release, that leaves nothing in the commit log.
    `log_begin`: where the timer log begins, of files of `log_file_size`. `seal` is of a clean stop.
    """

    precision_ms: int
    slots_total: int
    wheel_covered_pos: int
    release_scan_pos: int
    displaced_until_ms: int
    checkpoint: TimerCheckpoint
    removed: frozenset[int] = frozenset()
    clean_end: tuple[int, int, int] | None = None
    log_begin: int = 0
    log_file_size: int | None = None
    seal: WheelSeal | None = None

    def encode(self) -> bytes:
        """Give the JSON text."""
        one, seal = self.checkpoint, self.seal
        text = dumps(
            {
                "precisionMs": self.precision_ms,
                "slotsTotal": self.slots_total,
                "wheelCoveredPos": self.wheel_covered_pos,
                "releaseScanPos": self.release_scan_pos,
                "displacedUntilMs": self.displaced_until_ms,
                "checkpoint": {key: getattr(one, name) for key, name in _CHECKPOINT_KEYS.items()},
                "removed": sorted(self.removed),
                "cleanEnd": list(self.clean_end) if self.clean_end else None,
                "logBegin": self.log_begin,
                "logFileSize": self.log_file_size,
                "seal": list(astuple(seal)) if seal else None,
            }
        )
        return _CHECK_SUM % crc32(text) + text[1:]

    @classmethod
    def decode(cls, data: bytes) -> "TimerMeta":
        """Read the JSON text. Raises ValueError, KeyError or TypeError when it is damaged."""
        stored = loads(data)
        if "checkSum" in stored:
            text = b"{" + data[len(_CHECK_SUM % 0) :]
            if not data.startswith(_CHECK_SUM % crc32(text)):
                raise ValueError("its check sum is wrong")
        one = stored["checkpoint"]
        clean, seal = stored.get("cleanEnd"), stored.get("seal")
        return cls(
            precision_ms=int(stored["precisionMs"]),
            slots_total=int(stored["slotsTotal"]),
            wheel_covered_pos=int(stored["wheelCoveredPos"]),
            release_scan_pos=int(stored["releaseScanPos"]),
            displaced_until_ms=int(stored["displacedUntilMs"]),
            checkpoint=TimerCheckpoint(
                **{name: int(one[key]) for key, name in _CHECKPOINT_KEYS.items()}
            ),
            removed=frozenset(map(int, stored["removed"])),
            clean_end=(int(clean[0]), int(clean[1]), int(clean[2])) if clean else None,
            log_begin=int(stored.get("logBegin") or 0),
            log_file_size=stored.get("logFileSize"),
            seal=WheelSeal(*map(int, seal)) if seal else None,
        )


class TimerMetaFile:
    """The file behind it: written beside, synced, renamed, so it is whole or the old one."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path
        self._folder = path.rpartition("/")[0]
        self.problem: str | None = None
        """What was wrong with the file."""

    def load(self) -> TimerMeta | None:
        """Give what is stored; None, with a warning if damaged, when there is nothing to use."""
        if not self._fs.exists(self._path):
            return None
        try:
            return TimerMeta.decode(self._fs.read_file(self._path))
        except (StoreError, ValueError, KeyError, TypeError, IndexError) as error:
            self.problem = f"{self._path} is damaged and not used: {error}"
            _LOG.warning("%s", self.problem)
            return None

    def write(self, meta: TimerMeta) -> None:
        """Store it durably."""
        beside = self._path + ".tmp"
        self._fs.write_file(beside, meta.encode())
        self._fs.sync_file(beside)
        self._fs.rename(beside, self._path)
        self._fs.sync_dir(self._folder)
