"""Committed offsets: the next offset to consume, per group, topic and queue.

State of RocketMQ's ConsumerOffsetManager; every call is made under the door. It never compares
an offset with a queue's bounds, as the original does not: programs keep marks of their own there.
When what was handed out and committed is in `deliveries.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from embedded_broker.tables.files import Table

NOT_STORED: Final = -1
OFFSET_MAX: Final = (1 << 63) - 1
_SEPARATOR: Final = "@"


def offset_problem(offset: int) -> str | None:
    """Say what is wrong with a number that is no offset, or None."""
    if 0 <= offset <= OFFSET_MAX:
        return None
    return f"commitOffset[{offset}] is illegal: 0 to {OFFSET_MAX}"


class OffsetTable(Table):
    """Group and topic to the offsets of their queues.

    `on_moved(group, topic, queue_id, before, after)` is called when an offset changes by a
    commit; before the first one it is -1.
    """

    document_key = "offsetTable"

    def __init__(self) -> None:
        super().__init__()
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        self._resets: dict[tuple[str, str, int], int] = {}
        self.on_moved: Callable[[str, str, int, int, int], None] | None = None

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Give the committed offset, or NOT_STORED (-1)."""
        queues = self._offsets.get((group, topic))
        return NOT_STORED if queues is None else queues.get(queue_id, NOT_STORED)

    def is_stored(self, group: str, topic: str) -> bool:
        """Say whether a group has committed anything in a topic."""
        return (group, topic) in self._offsets

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset as it is, backwards too."""
        key = (group, topic)
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
        before = queues.get(queue_id, NOT_STORED)
        queues[queue_id] = offset
        if before != offset and self.on_moved is not None:
            self.on_moved(group, topic, queue_id, before, offset)
        self.note_change(key)

    def reset(self, group: str, topic: str, queue_id: int, offset: int, *, tell: bool) -> None:
        """Set an offset from outside; with `tell` the next pull of the queue is to hear of it.

        `ConsumerOffsetManager.assignResetOffset`; the pending resets are not saved.
        """
        self._offsets.setdefault((group, topic), {})[queue_id] = offset
        if tell:
            self._resets[group, topic, queue_id] = offset
        self.note_change((group, topic))

    def begin_anew(self, group: str, topic: str, queue_id: int) -> None:
        """Let the next pull of a queue hear that it begins at 0; nothing is stored.

        For a client that still counts messages which are gone; its commits are stale until then.
        """
        self._resets[group, topic, queue_id] = 0

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Say whether a reset waits for the next pull; commits are stale until then."""
        return bool(self._resets) and (group, topic, queue_id) in self._resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Give the offset of a pending reset, which is then over; None without one."""
        if not self._resets:
            return None
        return self._resets.pop((group, topic, queue_id), None)

    def forget_group(self, group: str) -> None:
        """Remove all that a group has committed."""
        self._remove([key for key in self._offsets if key[0] == group])
        self._resets = {key: at for key, at in self._resets.items() if key[0] != group}

    def forget_topic(self, topic: str) -> None:
        """Remove all that was committed in a topic."""
        self._remove([key for key in self._offsets if key[1] == topic])
        self._resets = {key: at for key, at in self._resets.items() if key[1] != topic}

    def _remove(self, keys: list[tuple[str, str]]) -> None:
        for key in keys:
            del self._offsets[key]
            self.note_change(key)

    def copy(self, source: str, target: str, topic: str) -> None:
        """Let a group have the offsets of another one in a topic, instead of its own."""
        queues = self._offsets.get((source, topic))
        if queues is not None:
            self._offsets[target, topic] = queues.copy()
            self.note_change((target, topic))

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Give a copy of the offsets of one group in one topic, by queue."""
        return dict(self._offsets.get((group, topic), {}))

    def topics_of(self, group: str) -> list[str]:
        """Name the topics in which the group has committed anything."""
        return [topic for owner, topic in self._offsets if owner == group]

    def readers(self) -> dict[str, list[str]]:
        """Give the groups that have committed anything in a topic, by topic."""
        readers: dict[str, list[str]] = {}
        for group, topic in self._offsets:
            readers.setdefault(topic, []).append(group)
        return readers

    def groups(self) -> list[str]:
        """Name the groups that have committed anything, each once."""
        return list(dict.fromkeys(group for group, _ in self._offsets))

    def keys(self) -> Iterable[tuple[str, str]]:
        """Give group and topic of all entries."""
        return self._offsets

    def value(self, key: tuple[str, str]) -> dict[int, int] | None:
        """Give a copy of the offsets of a group in a topic."""
        queues = self._offsets.get(key)
        return None if queues is None else queues.copy()

    def name(self, key: tuple[str, str]) -> str:
        """Give the key of `config/consumerOffset.json`: `topic@group`."""
        group, topic = key
        return f"{topic}{_SEPARATOR}{group}"

    def entry(self, key: tuple[str, str], value: dict[int, int]) -> tuple[str, Any]:
        """Give an entry of `config/consumerOffset.json`: key `topic@group`, bare queue ids."""
        return self.name(key), value

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what `config/consumerOffset.json` holds; a key without `@` is skipped."""
        for key, queues in (stored.get("offsetTable") or {}).items():
            topic, separator, group = str(key).partition(_SEPARATOR)
            if separator and group:
                self._offsets[group, topic] = {int(q): int(offset) for q, offset in queues.items()}
