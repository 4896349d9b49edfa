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

from embedded_broker.core.broker_core import BrokerCore
from embedded_broker.errors import StoreError
from embedded_broker.store.config_files import JsonConfigFile
from rocketmq_py.protocol.bodies.topics import TopicConfig
from rocketmq_py.protocol.names import AUTO_CREATE_TOPIC

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
        core.tables[path] = table

    def _schedule(self) -> None:
        due_ms = self._core.session_clock.now_ms + self._wait_ms
        self._core.session.at(due_ms, self._save, "save of " + self._file.path)

    def _save(self) -> None:
        """Make the document inside the door; it is written outside, on another thread."""
        if self._table.changed or self._failed:
            self._core.in_background(self._prepare())

    def begin_save(self) -> Callable[[], None]:
        """Make the document; what is returned writes it. Under the door."""
        return self._prepare() if self._table.changed else _nothing

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
    for table, name in ((core.topics, "topics"), (core.groups, "subscriptionGroup")):
        file = TableFile(core, table, f"config/{name}.json", SOON_MS)
        # The original writes these two before it answers who caused the change.
        core.before_crash.append(file.begin_save)
    TableFile(core, core.offsets, "config/consumerOffset.json", offsets_ms)
    _restore_topics(core)


def _restore_topics(core: BrokerCore) -> None:
    """Make the topics anew that have messages or waiting timers and are in no file.

    That is when the process died between a topic's creation and the save. A topic gets as many
    queues as are known to have been used, and at least those of the template from which sends
    create topics: a waiting timer may belong to any of them.
    """
    template = core.topics.get(AUTO_CREATE_TOPIC)
    at_least = 1 if template is None else template.write_queue_nums
    used = [key for key, queue in core.store.queues.items() if queue.max_offset > 0]
    queues: dict[str, int] = {}
    for topic, queue_id in [*used, *((topic, 0) for topic in core.timers.metrics.topics)]:
        if topic not in core.topics and not core.topics.is_system(topic):
            queues[topic] = max(queues.get(topic, at_least), queue_id + 1)
    for topic, count in queues.items():
        logger.warning("topic %s was in no file; it has %d queues again", topic, count)
        core.topics.put(
            TopicConfig(topic_name=topic, read_queue_nums=count, write_queue_nums=count)
        )


def _nothing() -> None:
    """Everything is written."""
