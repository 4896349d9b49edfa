"""Files of the tables: when topics, groups and offsets are saved, and how they come back.

RocketMQ's ConfigManager files under `config/`: topics.json and subscriptionGroup.json soon after a
change, consumerOffset.json every flushConsumerOffsetInterval in which something was committed, all
of them at close. Under the door only what was changed is taken; its text is made and the file is
written after release. The tables know nothing of this; what a file looks like is in
`store/config_files.py`.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from threading import Lock
from typing import Any, ClassVar, Final

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.errors import StoreDamagedError, StoreError
from embedded_broker.settings.profiles import Profile
from embedded_broker.store.config_files import EntriesText, JsonConfigFile
from embedded_broker.store.fs import FileSystem
from rocketmq_py.clock import Clock
from rocketmq_py.logs import get_logger

logger = get_logger(__name__)

SOON_MS: Final = 100
"""Settings are saved this long after the first unsaved change: many topics, one write."""
ENTRIES_IN_A_MS: Final = 20
"""A table of more than 2,000 entries waits longer: a millisecond for so many of them."""
RETRY_MS: Final = 1_000
"""A save that failed is tried again after this, until the disk takes it."""


def _nothing() -> None:
    """Tell nobody, write nothing."""


class Table(ABC):
    """A table that is kept in a file.

    `changed` is true while something is not saved yet, and `on_changed` is called when it turns
    true. A save that fails is tried again every `RETRY_MS`.
    """

    document_key: ClassVar[str]
    """The one key that every document of this table has: its entries stand there."""

    def __init__(self) -> None:
        self.changed = False
        self.unsaved: str | None = None
        """Why the last save failed; None when all that was to be saved is."""
        self.on_changed: Callable[[], None] = _nothing
        self._touched: dict[Any, None] | None = None  # None: everything
        """Entries that were changed since they were taken last."""

    def note_change(self, key: Hashable) -> None:
        """Ask for a save of an entry."""
        if self._touched is not None:
            self._touched[key] = None
        if not self.changed:
            self.changed = True
            self.on_changed()

    def take_changes(self) -> dict[Any, Any]:
        """Give the values of the entries that were changed since the last time, all at first.

        None stands for one that was removed.
        """
        touched = self.keys() if self._touched is None else self._touched
        self._touched = {}
        return {key: self.value(key) for key in touched}

    def to_document(self) -> dict[str, Any]:
        """Give the object that the file would hold."""
        entries = (self.entry(key, self.value(key)) for key in self.keys())
        return {**self.head(), self.document_key: dict(entries)}

    @abstractmethod
    def keys(self) -> Iterable[Any]:
        """Give the keys of all entries."""

    @abstractmethod
    def value(self, key: Any) -> Any:
        """Give the value of an entry, one that does not change any more; None: there is none."""

    def name(self, key: Any) -> str:
        """Give the name of an entry in the file."""
        return str(key)

    @abstractmethod
    def entry(self, key: Any, value: Any) -> tuple[str, Any]:
        """Give the name and the object under which a value stands in the file. Outside the door."""

    def head(self) -> dict[str, Any]:
        """Give what stands beside the entries; by default nothing."""
        return {}

    @abstractmethod
    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over a stored object."""


class VersionedTable(Table):
    """A table whose file says how often it was changed, and when last: its DataVersion."""

    def __init__(self, clock: Clock, profile: Profile) -> None:
        super().__init__()
        self._clock = clock
        self._profile = profile
        self._counter = 0
        self._stamp_ms = clock.now_ms

    def note_change(self, key: Hashable) -> None:
        """Count a change and ask for a save."""
        self._counter += 1
        self._stamp_ms = self._clock.now_ms
        super().note_change(key)

    def data_version(self) -> dict[str, Any]:
        """Give the DataVersion object of this table, as answers and files carry it."""
        version: dict[str, Any] = {"counter": self._counter, "timestamp": self._stamp_ms}
        if self._profile.data_version_has_state:
            version["stateVersion"] = 0
        return version

    def take_version(self, stored: Mapping[str, Any]) -> None:
        """Go on from the DataVersion of a stored object."""
        version = stored.get("dataVersion") or {}
        self._counter = int(version.get("counter", self._counter))
        self._stamp_ms = int(version.get("timestamp", self._stamp_ms))


@define(eq=False)
class TableFiles:
    """The files of one broker's tables.

    `in_background` writes them, outside the door and on another thread. `note` is told what was
    wrong with a file; with `skip_damage` a table whose file cannot be read starts empty.
    """

    _fs: FileSystem
    _session: Session
    _in_background: Callable[[Callable[[], None]], None]
    _note: Callable[[str], None]
    _skip_damage: bool
    _files: "dict[str, _TableFile]" = field(factory=dict, init=False)

    def keep(
        self,
        table: Table,
        path: str,
        wait_ms: int | None = None,
        before: Callable[[], None] = _nothing,
    ) -> bool:
        """Load a table from its file; from now on it is saved `wait_ms` after a change.

        None is for one that the original saves before it answers who caused the change: it is saved
        soon, and by `begin_saves`, too.
        `before` is called each time before the file is written, outside the door; a save whose
        `before` raises `StoreError` is tried again.

        Says whether the file was there, and as it was saved last. Raises `StoreDamagedError` if no
        generation of the file can be read.
        """
        stored = JsonConfigFile(self._fs, path, key=table.document_key)
        file = self._files[path] = _TableFile(table, stored, before, is_urgent=wait_ms is None)
        found = file.load(skip_damage=self._skip_damage)
        if stored.problem is not None:
            self._note(stored.problem)
            file.begin()()  # what was read instead is what the file holds from now on

        def save() -> None:
            self._save(file)
            self._session.after(RETRY_MS, retry, "save of " + path)

        def retry() -> None:
            # A disk in trouble may take its time to refuse. Asked for first: what ends in between
            # has said by then how it ended.
            if file.is_being_written:
                self._session.after(RETRY_MS, retry, "save of " + path)
            elif table.unsaved is not None:
                save()

        def schedule() -> None:
            # A large file takes long to write: this way it is a twentieth of the time.
            wait = max(SOON_MS if wait_ms is None else wait_ms, file.entries // ENTRIES_IN_A_MS)
            self._session.after(wait, save, "save of " + path)

        table.on_changed = schedule
        return found and stored.problem is None

    def save(self) -> None:
        """Save what is not saved yet. Under the door."""
        for file in self._files.values():
            self._save(file)

    def _save(self, file: "_TableFile") -> None:
        if file.table.changed or file.table.unsaved is not None:
            self._in_background(file.begin(in_time=True))

    @property
    def unsaved(self) -> str | None:
        """Why a file could not be written the last time; None when all were."""
        problems = (file.table.unsaved for file in self._files.values())
        return next((one for one in problems if one is not None), None)

    def begin_saves(self) -> list[Callable[[], None]]:
        """Make the documents of urgent tables; what is returned writes them. Under the door."""
        return [
            file.begin()
            for file in self._files.values()
            if file.is_urgent and (file.table.changed or file.is_being_written)
        ]

    def documents(self) -> dict[str, Any]:
        """Give what each file would hold now, by path. Under the door."""
        return {path: file.table.to_document() for path, file in self._files.items()}


class _TableFile:
    """One table and its file."""

    def __init__(
        self, table: Table, file: JsonConfigFile, before: Callable[[], None], *, is_urgent: bool
    ) -> None:
        self.table = table
        self.is_urgent = is_urgent
        self._before = before
        self._file = file
        self._writing = Lock()
        self._waiting: deque[tuple[dict[str, Any], dict[Any, Any]]] = deque()
        self._text = EntriesText(table.document_key)

    @property
    def entries(self) -> int:
        """How many entries the file had when it was written last."""
        return len(self._text)

    @property
    def is_being_written(self) -> bool:
        """Whether a save has begun that has not ended."""
        return bool(self._waiting) or self._writing.locked()

    def load(self, *, skip_damage: bool) -> bool:
        stored = self._file.load(skip_damage=skip_damage)
        if stored is not None:
            try:
                self.table.load_document(stored)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                self._file.problem = f"{self._file.path} does not hold what it should: {error}"
                if not skip_damage:
                    raise StoreDamagedError(self._file.problem) from error
        self.table.changed = False
        return stored is not None

    def begin(self, *, in_time: bool = False) -> Callable[[], None]:
        table = self.table
        before = self._before if in_time else _nothing
        table.changed = False
        self._waiting.append((table.head(), table.take_changes()))

        def write() -> None:
            with self._writing:
                if not self._waiting:
                    return  # a newer save has taken this one along on another thread
                while self._waiting:
                    head, changes = self._waiting.popleft()
                    for key, value in changes.items():
                        if value is None:
                            self._text.drop(table.name(key))
                        else:
                            self._text.put(*table.entry(key, value))
                try:
                    before()
                    self._file.save_text(self._text.of(head))
                except StoreError as error:
                    if table.unsaved is None:
                        # A disk that refuses says what and why: where in the code helps nobody.
                        text = "could not save %s; trying again: %s"
                        logger.log(logging.ERROR, text, self._file.path, error)
                    table.unsaved = str(error)
                else:
                    if table.unsaved is not None:
                        logger.warning("%s is saved again", self._file.path)
                    table.unsaved = None

        return write
