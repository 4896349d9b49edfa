from __future__ import annotations

import pytest

from tests.unit.embedded_broker.store.store_tools import message, new_store


def test_a_queue_is_created_only_when_asked_for() -> None:
    store = new_store()
    assert store.consume_queue("T", 0) is None
    queue = store.consume_queue("T", 0, create=True)
    assert store.consume_queue("T", 0) is queue
    store.put(message(1))
    assert queue is not None
    assert queue.max_offset == 1


def test_an_offset_that_is_no_record_gives_nothing() -> None:
    store = new_store()
    put = store.put(message(1))
    assert store.read(put.commit_log_offset + 1) is None
    assert store.record(put.commit_log_offset + put.size) is None
    assert store.read(put.commit_log_offset, put.size + 1) is None


def test_an_unknown_boundary_is_an_error() -> None:
    store = new_store()
    store.put(message(1))
    with pytest.raises(ValueError, match="MIDDLE"):
        store.search_offset("T", 0, 1, "MIDDLE")
