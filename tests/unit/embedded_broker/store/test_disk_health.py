from __future__ import annotations

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.store.disk_health import DiskHealth, Undone
from embedded_broker.store.memory_fs import MemoryFileSystem
from embedded_broker.store.put_values import PutStatus
from tests.unit.embedded_broker.store.store_tools import message, new_store


class Rig:
    def __init__(self) -> None:
        self.accepts: list[bool] = []
        self.health = DiskHealth(lambda: 77, self.accepts.append)
        self.room = False
        self.tries = 0

    def left_undone(self) -> None:
        self.tries += 1
        if not self.room:
            raise StoreError("no room")


def test_what_is_wrong_is_told_once_and_with_its_time() -> None:
    rig = Rig()
    for _ in range(3):
        rig.health.look(lambda: "the folder is gone")
    assert rig.health.problem == "the folder is gone"
    assert rig.health.since_ms == 77
    rig.health.look(lambda: None)
    assert rig.accepts == [False, True]


def test_a_store_that_drains_accepts_when_what_was_left_is_done() -> None:
    rig = Rig()
    rig.health.drain_until(rig.left_undone, StoreError("abort: no room"))
    assert "abort: no room. Messages can be consumed" in str(rig.health.problem)
    rig.health.look(lambda: None)
    rig.health.try_again()
    assert (rig.accepts, rig.tries) == ([False], 1)
    rig.room = True
    rig.health.try_again()
    rig.health.try_again()
    rig.health.look(lambda: None)
    assert (rig.accepts, rig.tries) == ([False, True], 2)


def test_a_store_that_was_opened_anew_forgets_what_was_wrong_before() -> None:
    rig = Rig()
    rig.health.drain_until(rig.left_undone, StoreError("no room"))
    rig.health.start_anew()
    rig.health.try_again()
    rig.health.look(lambda: None)
    assert (rig.health.problem, rig.tries) == (None, 0)


def test_a_store_in_trouble_refuses_one_message_many_and_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = MemoryFileSystem()
    store = new_store(fs)
    assert store.put(message(1)).status is PutStatus.PUT_OK
    monkeypatch.setattr(fs, "look", lambda: "the folder was removed")
    store.look()
    for messages in ([message(2)], [message(3), message(4)]):
        refused = store.put(*messages)
        assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
        assert refused.remark == "the folder was removed"
    assert not store.takes_copies
    monkeypatch.undo()
    store.look()
    assert store.put(message(2)).status is PutStatus.PUT_OK
    store.close()
    store.look()


def test_only_what_a_full_disk_does_not_take_is_left_for_later() -> None:
    undone = Undone()

    def write() -> None:
        raise StoreError("the folder is gone")

    with pytest.raises(StoreError, match="the folder is gone"):
        undone.attempt(write)
    undone.run()
