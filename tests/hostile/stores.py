"""Stores to be damaged, and what can be seen in one: messages, timers, offsets, topics.

Answers: what a store holds before and after. A store is looked at through the broker that opens it,
with a clock that is far behind every due time; then the clock moves past all of them, so that every
waiting message has to come out, too.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from attrs import field, frozen

from embedded_broker import EmbeddedBroker, RecoveryReport, VirtualClock
from embedded_broker.store.directory_fs import DirectoryFileSystem
from tests.archives import unpack_store

Kind = Literal["wheel", "sliced", "real 5.3.3"]

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - fsync of a disk is what takes the time
MEMORY = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
"""Where to make stores; None: where temporary files go."""
STARTS = datetime(2030, 1, 1, tzinfo=UTC)
SMALL_FILES = {
    "mappedFileSizeCommitLog": 65_536,
    "mappedFileSizeConsumeQueue": 2_000,
    "mappedFileSizeTimerLog": 5_200,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2_000,
}
REAL_FILES = {
    "mappedFileSizeCommitLog": 67_108_864,
    "mappedFileSizeConsumeQueue": 600_000,
    "mappedFileSizeTimerLog": 1_048_576,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
}
GROUP = "readers"
PLAIN, TIMED, LEVELS = "Plain", "Timed", "Levels"


@frozen
class Holds:
    """What is in a store: as it was opened, and after everything in it has come due."""

    topics: dict[str, int]
    offsets: dict[tuple[str, int], int]
    at_first: Counter[tuple[str, bytes]]
    waiting: Counter[tuple[str, str, datetime]]
    at_last: Counter[tuple[str, bytes]]
    report: RecoveryReport = field(eq=False)

    def counts(self) -> tuple[int, int, int]:
        """Messages at first, timers that wait, messages at last."""
        return self.at_first.total(), self.waiting.total(), self.at_last.total()


@frozen
class Store:
    """A store directory, and the clock time at which to open it."""

    kind: Kind
    root: Path
    at: datetime

    def copy(self, target: Path) -> Store:
        """Copy it; files with holes keep them."""
        command = ["cp", "-r", "--sparse=always", "--reflink=auto", str(self.root), str(target)]
        subprocess.run(command, check=True)
        return Store(self.kind, target, self.at)

    def files(self) -> list[Path]:
        """Give every file in it, but for marks that are empty by nature."""
        every = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(path for path in every if path.name not in {"lock", "abort"})

    def broker(self, **settings: object) -> EmbeddedBroker:
        """Make a broker on it; starting it raises what opening raises."""
        return EmbeddedBroker(
            fs=DirectoryFileSystem(self.root),
            clock=VirtualClock(self.at),
            session_clock=VirtualClock(),
            engine="sliced" if self.kind == "sliced" else "wheel",
            config={**(REAL_FILES if self.kind == "real 5.3.3" else SMALL_FILES), **settings},
            tcp=False,
        )

    def look(self, **settings: object) -> Holds:
        """Open it and say what is in it. Raises what opening raises."""
        with self.broker(**settings) as broker:
            broker.clock.advance(0)  # what is due by now is out
            names = [name for name in broker.topics.names() if not name.startswith("%")]
            parts = broker._parts()
            with parts.door:
                offsets = {
                    (str(key), int(queue)): int(offset)
                    for key, queues in parts.tables.offsets.to_document()["offsetTable"].items()
                    for queue, offset in queues.items()
                }
            topics = {name: broker.topics[name].queues for name in names}
            at_first = _messages(broker, names)
            pending = broker.timers.pending(limit=10_000)
            waiting = Counter((one.topic, one.msg_id, one.due_at) for one in pending)
            broker.clock.advance(days=30)
            at_last = _messages(broker, names)
            return Holds(topics, offsets, at_first, waiting, at_last, broker.recovery)


def make_store(kind: Kind, root: Path, *, clean: bool) -> Store:
    """Make a store with plain, timed and level messages and offsets."""
    if kind == "real 5.3.3":
        name = "r533-clean" if clean else "r533-crash"
        unpack_store(name, root)
        lines = (root / f"{name}.tsv").read_text().splitlines()
        due = [int(line.split("\t")[3]) for line in lines]
        at = datetime.fromtimestamp(min(one for one in due if one) // 1000 - 3600, UTC)
        return Store(kind, root / f"{name}.store", at)
    store = Store(kind, root / "store", STARTS)
    broker = store.broker().start()
    for topic in (PLAIN, TIMED, LEVELS):
        broker.topics.create(topic, queues=4)
    for number in range(400):
        keys, queue = f"key{number}", number % 4
        broker.send(PLAIN, b"plain-%d" % number + bytes(range(200)), queue=queue, keys=keys)
        if queue == 0:
            broker.send(TIMED, b"timed-%d" % number, delay=60 + number * 97, keys=keys)
        if number % 20 == 0:
            broker.send(LEVELS, b"level-%d" % number, delay_level=5 + number % 3)
    broker.clock.advance(600)
    parts = broker._parts()
    with parts.door:
        for queue_id in range(4):
            parts.tables.offsets.commit(GROUP, PLAIN, queue_id, 30 + queue_id)
    if clean:
        broker.close()
        return store
    with parts.door:
        parts.table_files.save()
    parts.flush_everything()
    for number in range(400, 430):
        broker.send(PLAIN, b"plain-%d" % number, queue=number % 4)
        broker.send(TIMED, b"timed-%d" % number, delay=60 + number * 97)
    broker.crash()
    return store


def _messages(broker: EmbeddedBroker, names: list[str]) -> Counter[tuple[str, bytes]]:
    return Counter((name, one.body) for name in names for one in broker.messages.in_topic(name))
