"""Pages of a store's pending timers in due order, for programs that take them all.

Answers: the same messages as `rocketmq-py timers DIRECTORY`, which asks `report.py`, for the Spark
connector: with no more in memory than one page and 33 bytes for each message. Must not know: who
asks. Read on: `pending.py` for how they are found, `columns.py` for their order.
"""

import os
from collections.abc import Iterator

from attrs import evolve

from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.timer.listing import NEVER_MS, ListPosition, Pending, Wanted

__all__ = ["Pending", "pending_pages", "wanted_of"]


def pending_pages(
    directory: str | os.PathLike[str],
    *,
    topic: str | None = None,
    since_ms: int | None = None,
    before_ms: int | None = None,
    limit: int,
) -> Iterator[list[Pending]]:
    """Look at a store and give pages of at most `limit` (from 1) messages; none where none wait.

    Of a `topic` alone, due at `since_ms` or later and before `before_ms`, in epoch milliseconds.
    Raises `StoreError` when the directory holds no store, or a file that must not be read.
    """
    wanted = wanted_of(topic=topic, since_ms=since_ms, before_ms=before_ms, limit=limit)
    with StoreFiles.open(directory) as files:
        source = find_pending(files)
        while page := source.page(wanted):
            yield page
            wanted = evolve(wanted, after=page[-1].place)


def wanted_of(
    *, topic: str | None, since_ms: int | None, before_ms: int | None, limit: int
) -> Wanted:
    """Say what is asked for, as `pending_pages` takes it."""
    wanted = Wanted(
        topic=topic, before_ms=NEVER_MS if before_ms is None else before_ms, limit=limit
    )
    return (
        wanted if since_ms is None else evolve(wanted, after=ListPosition(since_ms - 1, NEVER_MS))
    )
