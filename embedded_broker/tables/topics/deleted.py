"""Deleted topics, and up to where their queues were written then.

Answers: what of a queue belongs to a topic that is gone, so that neither a restart nor a new topic
of that name brings it back. The commit log keeps the messages until they are too old, and the
queues go on where they were. Must not know: the store. Every call is made under the door. Read on:
`core/administration/removals.py`, which writes it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from embedded_broker.tables.files import Table


class DeletedTopics(Table):
    """Topic name to the ends of its queues when it was deleted last."""

    document_key = "deletedTopics"

    def __init__(self) -> None:
        super().__init__()
        self._ends: dict[str, dict[int, int]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._ends

    def put(self, name: str, ends: Mapping[int, int]) -> None:
        """Note that a topic was deleted."""
        self._ends[name] = {**self._ends.get(name, {}), **ends}
        self.note_change(name)

    def ends(self) -> Iterator[tuple[tuple[str, int], int]]:
        """Give topic and queue with the end that the queue had."""
        for name, queues in self._ends.items():
            for number, end in queues.items():
                yield (name, number), end

    def keys(self) -> Iterable[str]:
        """Give the names of all topics that were ever deleted."""
        return self._ends

    def value(self, key: str) -> dict[int, int]:
        """Give a copy of the ends of a topic's queues."""
        return self._ends[key].copy()

    def entry(self, key: str, value: dict[int, int]) -> tuple[str, Any]:
        """Give an entry of `config/deletedTopics.json`."""
        return key, value

    def load_document(self, stored: Mapping[str, Any]) -> None:
        """Take over what `config/deletedTopics.json` holds."""
        for name, ends in (stored.get(self.document_key) or {}).items():
            self._ends[str(name)] = {int(queue): int(end) for queue, end in ends.items()}
