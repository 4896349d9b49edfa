"""What keeps a program from ending before its sends have."""

from __future__ import annotations

import threading

import pytest

from rocketmq_py import DefaultMQProducer, Message
from rocketmq_py.client import last_sends, life
from rocketmq_py.client.last_sends import LastSends
from tests.unit.rocketmq_py.scripted import ScriptedCluster

WAIT_S = 20.0


def keepers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "rocketmq-last-sends"]


def test_it_has_one_thread_that_is_no_daemon_until_it_is_closed() -> None:
    watched = LastSends(lambda _: pytest.fail("the main thread has not ended"))
    assert keepers() == []
    watched.watch()
    watched.watch()
    (thread,) = keepers()
    assert not thread.daemon
    watched.close()
    watched.close()
    assert keepers() == []


def test_when_the_main_thread_has_ended_it_waits_for_what_one_shutdown_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = threading.Thread(target=int)
    main.start()
    main.join()
    monkeypatch.setattr(threading, "main_thread", lambda: main)
    monkeypatch.setattr(life, "_leave_until", [])
    waited: list[float] = []
    watched = LastSends(waited.append)
    watched.watch()
    for thread in keepers():
        thread.join(WAIT_S)
    (seconds,) = waited
    assert 0 < seconds <= life.PATIENCE_S
    assert life.time_to_leave() <= seconds


def test_the_time_to_leave_is_one_for_all_and_begins_anew_when_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(life, "_leave_until", [])
    monkeypatch.setattr(life, "monotonic", lambda: now[0])
    assert life.time_to_leave() == life.PATIENCE_S
    now[0] += 1
    assert life.time_to_leave() == life.PATIENCE_S - 1
    now[0] += life.PATIENCE_S
    assert life.time_to_leave() == life.PATIENCE_S


def test_a_producer_has_one_from_its_first_asynchronous_send_to_its_shutdown(
    cluster: ScriptedCluster,
) -> None:
    with DefaultMQProducer("P", namesrv_addr=cluster.namesrv_addr) as producer:
        producer.send(Message("T", b"x"))
        assert keepers() == []
        for _ in range(3):
            producer.send_async(Message("T", b"x")).result(WAIT_S)
        assert len(keepers()) == 1
    assert keepers() == []


def test_a_system_without_threads_sends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_sends, "started", lambda _: False)
    watched = LastSends(lambda _: pytest.fail("nobody waits"))
    watched.watch()
    assert watched.is_watching
    watched.close()
