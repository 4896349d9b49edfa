"""Commit log of a slave: bytes that its master wrote are taken over, and become messages.

Answers: where bytes of a master go, and when the records in them become visible. A piece may end in
the middle of a record, which waits for the rest. After ``DefaultMessageStore.appendToCommitLog``
and ``ReputMessageService``. Used under the door. Must not know: where the bytes come from. Read on:
``message_store.py`` (``show``), ``embedded_broker/ha/client.py``, which brings them.
"""

from embedded_broker.errors import StoreError
from embedded_broker.store.message_store import MessageStore


class Follower:
    """The end of a slave's log. Nothing else may write to the store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._shown_to = store.log.max_offset

    @property
    def max_offset(self) -> int:
        """Where the next piece must begin; 0 takes any."""
        return self._store.log.max_offset

    def append(self, offset: int, data: bytes) -> None:
        """Take over bytes; the records that are complete now are visible when this returns.

        Raises ``StoreError`` for a piece that does not follow, and when the disk refuses.
        """
        files = self._store.log.files
        if not files.files and not files.max_offset and offset >= 0:
            # A slave without a log gets its master's last file: what was before is not lost.
            files.start_at(offset)
            self._store.checkpoint.begin_offset = self._shown_to = offset
        if offset != files.max_offset:
            raise StoreError(
                f"the master's piece begins at {offset}, but this log ends at {files.max_offset}"
            )
        rest = memoryview(data)
        while rest:
            part = rest[: files.room]
            files.append(part)
            rest = rest[len(part) :]
        for record in self._store.log.scan_parts(self._shown_to):
            self._store.show(record)
            self._shown_to = record[0] + record[1]

    def cut_unfinished(self) -> None:
        """Let go of the begin of a record whose rest has not come: a clean stop leaves none."""
        self._store.log.files.take_back(self._shown_to)
