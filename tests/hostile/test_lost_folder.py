"""The folder of a store is removed, moved or replaced while a broker uses it, or its lock is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.core.refusals import Refused
from embedded_broker.errors import StoreError, StoreLockedError
from rocketmq_py.errors import MQBrokerException

ROOT = Path(__file__).resolve().parents[2]


def _remove(store: Path) -> None:
    shutil.rmtree(store)


def _move(store: Path) -> None:
    store.rename(store.with_name("elsewhere"))


def _replace(store: Path) -> None:
    _move(store)
    shutil.copytree(store.with_name("elsewhere"), store)


def _delete_lock(store: Path) -> None:
    (store / "lock").unlink()


def _empty(store: Path) -> None:
    for one in store.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()


@pytest.mark.parametrize("harm", [_remove, _move, _replace, _delete_lock, _empty])
def test_nothing_is_accepted_any_more_after_the_next_flush(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    place = tmp_path / "store"
    with EmbeddedBroker(store=place, tcp=False, topics=["T"], clock=VirtualClock()) as broker:
        broker.send("T", b"before")
        stored = [b"before"]
        harm(place)
        left = sorted(tmp_path.rglob("*"))

        def is_refused(broker: EmbeddedBroker) -> bool:
            try:
                broker.send("T", b"before", queue=0)
            except MQBrokerException as error:  # 1 when a new file was needed before the flush
                return error.response_code == 14
            stored.append(b"before")
            return False

        broker.wait_for(is_refused, timeout=20)
        parts = broker._parts()
        for delay in (None, 5):
            with pytest.raises(MQBrokerException, match="while the broker used it") as refused:
                broker.send("T", b"after", delay=delay)
            assert refused.value.response_code == 14
        with pytest.raises(StoreError, match=r"topics\.json cannot be saved: .* was "):
            broker.topics.create("U")
        parts.tables.groups.find("G")
        with parts.door, pytest.raises(Refused, match=r"kept in memory only.* was "):
            parts.administration.offsets.commit("G", "T", 0, 1)
        assert [one.body for one in broker.messages.in_topic("T")] == stored
    assert sorted(tmp_path.rglob("*")) == left


_SECOND = """
import sys
from embedded_broker import EmbeddedBroker
with EmbeddedBroker(store=sys.argv[1], tcp=False):
    pass
"""


def test_a_second_broker_is_refused_though_the_lock_was_deleted(tmp_path: Path) -> None:
    place = tmp_path / "store"
    second = [sys.executable, "-c", _SECOND, str(place)]
    with EmbeddedBroker(store=place, tcp=False) as first:
        (place / "lock").unlink()
        done = subprocess.run(second, cwd=ROOT, capture_output=True, text=True, check=False)
        assert "StoreLockedError" in done.stderr
        assert "in use by process" in done.stderr
        with pytest.raises(StoreLockedError, match="of this process"):
            EmbeddedBroker(store=place, tcp=False).start()
        assert first.is_running
    done = subprocess.run(second, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
