"""When topics, groups and offsets reach their files, and how they come back.

RocketMQ's ConfigManager files under `config/`: topics.json and subscriptionGroup.json soon after a
change, consumerOffset.json every flushConsumerOffsetInterval in which something was committed, all
of them at close. Under the door only the document is made; the file is written after release. The
tables know nothing of this; what a file looks like is in `store/config_files.py`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Final, Protocol

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.errors import StoreError
from embedded_broker.store.config_files import JsonConfigFile
from embedded_broker.store.fs import FileSystem
from embedded_broker.tables.topics.table import TopicTable
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC

__all__ = ["Table", "TableFiles", "restore_topics"]

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


@define(eq=False)
class TableFiles:
    """The files of one broker's tables.

    `in_background` writes them, outside the door and on another thread.
    """

    _fs: FileSystem
    _session: Session
    _in_background: Callable[[Callable[[], None]], None]
    _files: "dict[str, _TableFile]" = field(factory=dict, init=False)

    def keep(self, table: Table, path: str, wait_ms: int = SOON_MS) -> None:
        """Load a table from its file; from now on it is saved `wait_ms` after a change."""
        file = self._files[path] = _TableFile(table, JsonConfigFile(self._fs, path))

        def save() -> None:
            self._save(file)

        def schedule() -> None:
            self._session.after(wait_ms, save, "save of " + path)

        table.on_changed = schedule

    def save(self) -> None:
        """Save what is not saved yet. Under the door."""
        for file in self._files.values():
            self._save(file)

    def _save(self, file: "_TableFile") -> None:
        if file.table.changed or file.failed:
            self._in_background(file.begin())

    def begin_save(self, path: str) -> Callable[[], None]:
        """Make a table's document; what is returned writes it. Under the door."""
        file = self._files[path]
        return file.begin() if file.table.changed else _nothing

    def documents(self) -> dict[str, Any]:
        """Give what each file would hold now, by path. Under the door."""
        return {path: file.table.to_document() for path, file in self._files.items()}


class _TableFile:
    """One table and its file."""

    def __init__(self, table: Table, file: JsonConfigFile) -> None:
        self.table = table
        self._file = file
        self._writing = Lock()
        self._made = 0
        self._written = 0
        self.failed = False
        stored = file.load()
        if isinstance(stored, dict):
            table.load_document(stored)
        table.changed = False

    def begin(self) -> Callable[[], None]:
        self.table.changed = False
        self._made += 1
        number, document = self._made, self.table.to_document()

        def write() -> None:
            with self._writing:
                if number < self._written:
                    return  # a newer save has overtaken this one on another thread
                self._written = number
                try:
                    self._file.save(document)
                    self.failed = False
                except StoreError:
                    self.failed = True
                    logger.exception("could not save %s; closing tries again", self._file.path)

        return write


def restore_topics(topics: TopicTable, used: Iterable[tuple[str, int]]) -> None:
    """Make the topics anew that have messages or waiting timers and are in no file.

    That is when the process died between a topic's creation and the save. `used` names each topic
    with a queue that was used. It gets as many queues as are known, and at least those of the
    template from which sends create topics: a waiting timer may belong to any of them.
    """
    template = topics.get(AUTO_CREATE_TOPIC)
    at_least = 1 if template is None else template.write_queue_nums
    queues: dict[str, int] = {}
    for topic, queue_id in used:
        if topic not in topics and not topics.is_system(topic):
            queues[topic] = max(queues.get(topic, at_least), queue_id + 1)
    for topic, count in queues.items():
        logger.warning("topic %s was in no saved table: it is created with %d queues", topic, count)
        topics.put(TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count))


def _nothing() -> None:
    """Everything is written."""
