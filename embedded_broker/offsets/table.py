"""Committed offsets: the next offset to consume, per group, topic and queue.

State of RocketMQ's ConsumerOffsetManager; every call is made under the door. It never compares
an offset with a queue's bounds, as the original does not.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

NOT_STORED: Final = -1
_SEPARATOR: Final = "@"


class OffsetTable:
    """Group and topic to the offsets of their queues.

    `changed` is true while a commit is not saved yet, and `on_changed` is called when it turns
    true; `to_document` gives what a save writes.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        self.changed = False
        self.on_changed: Callable[[], None] = _nothing

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Give the committed offset, or NOT_STORED (-1)."""
        queues = self._offsets.get((group, topic))
        return NOT_STORED if queues is None else queues.get(queue_id, NOT_STORED)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store an offset as it is, backwards too."""
        key = (group, topic)
        queues = self._offsets.get(key)
        if queues is None:
            queues = self._offsets[key] = {}
        queues[queue_id] = offset
        if not self.changed:
            self.changed = True
            self.on_changed()

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Give a copy of the offsets of one group in one topic, by queue."""
        return dict(self._offsets.get((group, topic), {}))

    def topics_of(self, group: str) -> list[str]:
        """Name the topics in which the group has committed anything."""
        return [topic for owner, topic in self._offsets if owner == group]

    def groups(self) -> list[str]:
        """Name the groups that have committed anything, each once."""
        return list(dict.fromkeys(group for group, _ in self._offsets))

    def to_document(self) -> dict[str, Any]:
        """Give the object of `config/consumerOffset.json`: keys `topic@group`, bare queue ids."""
        return {
            "offsetTable": {
                f"{topic}{_SEPARATOR}{group}": dict(queues)
                for (group, topic), queues in self._offsets.items()
            }
        }

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what `config/consumerOffset.json` holds; a key without `@` is skipped."""
        for key, queues in (stored.get("offsetTable") or {}).items():
            topic, separator, group = str(key).partition(_SEPARATOR)
            if separator and group:
                self._offsets[group, topic] = {int(q): int(offset) for q, offset in queues.items()}


def _nothing() -> None:
    """Tell nobody: the table is not kept in a file."""
