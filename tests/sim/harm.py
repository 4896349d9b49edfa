"""What happens to a disk besides crashes: a bit flips while nobody runs, saves find no room.

Answers: what opening says of a flipped bit, and what is left of the small files when saves fail. A
flip is tried on a copy of the disk beside the opening that goes on, so what the store should hold
is known. Opening it may find the same, or less and say so, or refuse it; then the option that
leaves out what is damaged opens it and says so. Draws from a seed of its own, so that the rest of
a run does not depend on it. Must not know: what the files mean.

Read on: `story.py` for when, `audit.py` for what is compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from zlib import crc32

from embedded_broker.errors import StoreError
from embedded_broker.store.commit_log import HEAD_IPV4
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.errors import BodyError, ConfigError
from rocketmq_py.protocol.lenient_json import loads_lenient
from tests.sim.audit import check_counts, check_listing, check_log_and_queues, check_store_walk
from tests.sim.disk import Disk
from tests.sim.life import HandClock, Life
from tests.sim.plan import Plan
from tests.sim.truth import Truth, Violation

GROUP = "readers"
TABLES = (
    "config/topics.json",
    "config/consumerOffset.json",
    "config/delayOffset.json",
    "config/timermetrics",
    "config/slicemetrics",
)
NOT_FLIPPED = ("index/", "damaged/", "lock", "abort")
"""The index is made again from the log; nobody reads what was set aside."""
WAIT_MS = 5_000


class Flip:
    """A copy of a disk with one bit changed."""

    def __init__(self, disk: Disk, random: Random) -> None:
        self.fs = _copy(disk)
        paths = [one for one in self.fs.files() if not one.startswith(NOT_FLIPPED)]
        used = [(path, size) for path in paths if (size := _used(self.fs, path))]
        self.path, size = random.choice(used)
        self.was = crc32(self.fs.read_file(self.path))
        self.at, bit = random.randrange(size), random.randrange(8)
        _flip(self.fs, self.path, self.at, bit)
        self.text = f"bit {bit} of byte {self.at} of {self.path}"

    def judge(self, plan: Plan, now_ms: int, expected: Life, truth: Truth) -> str:
        """Open the copy; gives what became of it, or raises `Violation`."""
        kept = _copy(self.fs)
        try:
            verdict, said, wrong = self._open(self.fs, plan.settings, plan, now_ms, truth)
        except (StoreError, ConfigError) as error:
            if "/" not in str(error) and "commit log" not in str(error):
                raise Violation(f"{self.text}: refused without the place: {error}") from error
            settings = {**plan.settings, "damagedRecords": "skip"}
            try:
                _, said, _ = self._open(kept, settings, plan, now_ms, truth)
            except StoreError as again:
                raise Violation(f"{self.text}: not even left out: {again}") from again
            if not said - _said(expected):
                raise Violation(f"{self.text}: left out without a word") from None
            return "flips refused"
        if verdict == "same":
            return "flips said" if said - _said(expected) else "flips without effect"
        if said - _said(expected):
            return "flips said"
        if not self._is_covered(expected, truth):
            return "flips that no checksum covers"
        raise Violation(f"{self.text}: silent: {wrong}")

    def _is_covered(self, expected: Life, truth: Truth) -> bool:
        """Whether a checksum covers it: of the commit log, only those of bodies.

        One of a config file may be gone: a save removes what found no room.
        """
        folder, _, name = self.path.rpartition("/")
        if folder == "config":
            sums = f"{self.path}.crc32"
            known = self.fs.read_file(sums).split() if self.fs.exists(sums) else []
            return b"%d" % self.was in known
        if folder != "commitlog":
            return True
        at = int(name) + self.at
        event = next((one for one in truth.events if 0 <= at - one.offset < one.size), None)
        record = None if event is None else expected.store.record(event.offset)
        if event is None or record is None:
            return False
        begin = event.offset + HEAD_IPV4.size
        return begin <= at < begin + len(record.body)

    def _open(
        self,
        fs: MemoryFileSystem,
        settings: Mapping[str, object],
        plan: Plan,
        now_ms: int,
        truth: Truth,
    ) -> tuple[str, set[str], str]:
        life = Life(
            fs,
            settings,
            slots=plan.slots,
            clock=HandClock(now_ms),
            session_clock=HandClock(now_ms),
        )
        said = _said(life)
        wrong = ""
        checks = truth.checks.copy()
        try:
            check_counts(life, truth)
            check_listing(life, truth, 100)
            check_log_and_queues(life, truth)
            check_store_walk(life, truth)
        except Violation as found:
            wrong = str(found)
        finally:
            truth.checks = checks
            life.timers.abandon()
            life.store.abandon()
        return "other" if wrong else "same", said, wrong


def _said(life: Life) -> set[str]:
    """Give what a life has to say about its opening."""
    lines = [*life.store.problems, life.file.problem, life.timers.metrics.problem]
    report = life.recovery
    counters = {
        "truncated": report.truncated_bytes,
        "added": report.entries_added,
        "dropped": report.entries_dropped,
        "timer log": life.timer_recovery.truncated_bytes,
    }
    return {one for one in lines if one} | {f"{name} {n}" for name, n in counters.items() if n}


# --- saves without room ------------------------------------------------------------------------


def save_without_room(life: Life, disk: Disk, random: Random, checks: Counter[str]) -> None:
    """Commit, have the next saves refused, look, let them succeed, look again.

    One readable generation is there at every moment, and what was committed is saved at last.
    """
    offset = random.randrange(1, 1 << 30)
    with life.parts.door:
        life.parts.tables.offsets.commit(GROUP, "A", 0, offset)
    disk.full_saves = random.randint(1, 8)
    life.pass_session_time(WAIT_MS)
    check_tables(disk, checks)
    disk.full_saves = disk.full_for = disk.refuse_syncs = 0
    life.pass_session_time(WAIT_MS)
    life.pass_session_time(WAIT_MS)
    document = loads_lenient(disk.read_file("config/consumerOffset.json"))
    if document["offsetTable"][f"A@{GROUP}"].get("0") != offset:
        raise Violation(f"the offset {offset} is not saved although there is room: {document}")
    checks["saved when there is room"] += 1


def check_tables(disk: Disk, checks: Counter[str]) -> None:
    """Of every small file that was ever saved, one generation can be read."""
    for path in TABLES:
        files = [one for one in (path, f"{path}.bak") if disk.exists(one)]
        if files and not any(_is_readable(disk.read_file(one)) for one in files):
            raise Violation(f"neither of {files} can be read")
    checks["a generation can be read"] += 1


def _is_readable(data: bytes) -> bool:
    try:
        return isinstance(loads_lenient(data), dict)
    except BodyError:
        return False


# --- disks -------------------------------------------------------------------------------------


def _copy(fs: MemoryFileSystem) -> MemoryFileSystem:
    twin = fs.copy()
    twin._files = {path: bytes(data) for path, data in twin._files.items()}
    twin.persistent = fs.persistent
    return twin


def _used(fs: MemoryFileSystem, path: str) -> int:
    return len(fs.read_file(path).rstrip(b"\0"))


def _flip(fs: MemoryFileSystem, path: str, at: int, bit: int) -> None:
    data = bytearray(fs.read_file(path))
    data[at] ^= 1 << bit
    fs.write_file(path, bytes(data))
