"""When topics, groups and offsets reach their files, and how they come back.

RocketMQ's ConfigManager files under `config/`: topics.json and subscriptionGroup.json soon after a
change, consumerOffset.json every flushConsumerOffsetInterval in which something was committed, all
of them at close. Under the door only the document is made; the file is written after release. The
tables know nothing of this; what a file looks like is in `store/config_files.py`.
"""

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, Protocol

from embedded_broker.core import BrokerCore
from embedded_broker.errors import StoreError
from embedded_broker.store.config_files import JsonConfigFile

logger = logging.getLogger(__name__)

SOON_MS: Final = 100
"""Settings are saved this long after the first unsaved change: many topics, one write."""


class Table(Protocol):
    """What a table offers so that it can be saved and loaded."""

    changed: bool
    on_changed: Callable[[], None]

    def to_document(self) -> dict[str, Any]:
        """Give the object to write."""
        ...

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over a stored object."""
        ...


class TableFile:
    """One table and its file. `wait_ms` passes between a change and the save."""

    def __init__(self, core: BrokerCore, table: Table, path: str, wait_ms: int) -> None:
        self._core = core
        self._table = table
        self._file = JsonConfigFile(core.store.fs, path)
        self._wait_ms = wait_ms
        self._writing = Lock()
        self._made = 0
        self._written = 0
        self._failed = False
        stored = self._file.load()
        if isinstance(stored, dict):
            table.load_document(stored)
        table.changed = False
        table.on_changed = self._schedule
        core.on_close.append(self._save)

    def _schedule(self) -> None:
        due_ms = self._core.session_clock.now_ms + self._wait_ms
        self._core.at(due_ms, self._save, "save of " + self._file.path)

    def _save(self) -> None:
        """Make the document inside the door; it is written outside, on another thread."""
        if self._table.changed or self._failed:
            self._core.in_background(self._prepare())

    def _prepare(self) -> Callable[[], None]:
        self._table.changed = False
        self._made += 1
        number, document = self._made, self._table.to_document()

        def write() -> None:
            with self._writing:
                if number < self._written:
                    return  # a newer save has overtaken this one on another thread
                self._written = number
                try:
                    self._file.save(document)
                    self._failed = False
                except StoreError:
                    self._failed = True
                    logger.exception("could not save %s; closing tries again", self._file.path)

        return write


def keep_tables(core: BrokerCore) -> None:
    """Load the broker's tables from their files and save them from now on."""
    offsets_ms = core.config.int("flushConsumerOffsetInterval")
    TableFile(core, core.topics, "config/topics.json", SOON_MS)
    TableFile(core, core.groups, "config/subscriptionGroup.json", SOON_MS)
    TableFile(core, core.offsets, "config/consumerOffset.json", offsets_ms)
