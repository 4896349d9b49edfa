"""Slaves over TCP: what the master sends them, when, and when it gives them up."""

from __future__ import annotations

from typing import cast

import pytest

from embedded_broker import EmbeddedBroker, VirtualClock
from embedded_broker.ha.connection import HAConnection
from embedded_broker.remoting.server import TcpServer
from embedded_broker.remoting.socket_transport import SocketTransport
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.ha.raw_slave import RawSlave, service_of

SMALL = {"haListenPort": 0, "mappedFileSizeCommitLog": 4096}

pytestmark = pytest.mark.usefixtures("either_loop")


def log_of(broker: EmbeddedBroker) -> tuple[int, bytes]:
    """The end of the commit log, and all its bytes."""
    parts = broker._parts()
    with parts.door:
        files = parts.store.log.files
        chunks = [bytes(part) for _, part in files.chunks(0, files.max_offset, with_zeros=True)]
        return files.max_offset, b"".join(chunks)


def send(broker: EmbeddedBroker, count: int) -> None:
    for number in range(count):
        broker.send("T", b"%d" % number * 20)


def test_a_slave_gets_the_log_as_it_is_blanks_included_and_what_comes_later(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(config={**SMALL, "haTransferBatchSize": 100}, topics=["T"])
    send(broker, 20)
    end, before = log_of(broker)
    with RawSlave(broker.ha_addr) as slave:
        slave.report(1)
        assert slave.read_to(end) == before[1:]
        send(broker, 40)
        later_end, after = log_of(broker)
        assert later_end > 2 * 4096
        assert slave.read_to(later_end) == after[end:]


def test_a_slave_without_a_log_gets_the_last_file_only(start_broker: StartBroker) -> None:
    broker = start_broker(config=SMALL, topics=["T"])
    send(broker, 60)
    end, log = log_of(broker)
    begin = end - end % 4096
    assert begin > 0
    with RawSlave(broker.ha_addr) as slave:
        slave.report(0)
        assert slave.read_to(end) == log[begin:]


def test_pieces_are_no_larger_than_the_batch_size(start_broker: StartBroker) -> None:
    broker = start_broker(config={**SMALL, "haTransferBatchSize": 77}, topics=["T"])
    send(broker, 5)
    with RawSlave(broker.ha_addr) as slave:
        slave.report(1)
        assert {len(slave.piece().data) for _ in range(5)} == {77}


def test_nothing_is_sent_before_the_first_report(start_broker: StartBroker) -> None:
    session = VirtualClock()
    broker = start_broker(config=SMALL, topics=["T"], session_clock=session)
    with RawSlave(broker.ha_addr) as slave:
        service = service_of(broker)
        broker.wait_for(lambda _: bool(service.slaves))
        send(broker, 1)
        session.advance(7)
        slave.report(1)
        assert slave.piece().offset == 1


def test_a_slave_that_has_everything_gets_heartbeats(start_broker: StartBroker) -> None:
    session = VirtualClock()
    broker = start_broker(config=SMALL, topics=["T"], session_clock=session)
    send(broker, 1)
    end, _ = log_of(broker)
    with RawSlave(broker.ha_addr) as slave:
        slave.report(end)
        service = service_of(broker)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == end)
        session.advance(7)
        assert slave.piece() == (end, b"")


def test_a_silent_slave_is_given_up(start_broker: StartBroker) -> None:
    session = VirtualClock()
    broker = start_broker(config=SMALL, session_clock=session)
    with RawSlave(broker.ha_addr) as slave:
        service = service_of(broker)
        broker.wait_for(lambda _: bool(service.slaves))
        session.advance(22)
        assert slave.is_ended()
        broker.wait_for(lambda _: not service.slaves)


def test_a_slave_beyond_the_end_waits_and_the_log_says_so(
    start_broker: StartBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(config=SMALL, topics=["T"])
    with RawSlave(broker.ha_addr) as slave:
        slave.report(1_000_000)
        service = service_of(broker)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == 1_000_000)
        broker.wait_for(lambda _: "it gets nothing" in caplog.text)
        slave.report(1_000_001)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == 1_000_001)
    assert caplog.text.count("it gets nothing") == 1


def test_a_paused_broker_sends_nothing_and_goes_on_afterwards(start_broker: StartBroker) -> None:
    session = VirtualClock()
    broker = start_broker(config=SMALL, topics=["T"], session_clock=session)
    with RawSlave(broker.ha_addr) as slave:
        slave.report(1)
        service = service_of(broker)
        broker.wait_for(lambda _: service.push_to_slave_max_offset == 1)
        broker.pause()
        send(broker, 3)
        end, log = log_of(broker)
        assert next(iter(service.slaves)).next_offset == 1
        broker.resume()
        session.advance(1)
        assert slave.read_to(end) == log[1:]


def test_without_slaves_nobody_looks_at_the_log(start_broker: StartBroker) -> None:
    broker = start_broker(config=SMALL)
    door = broker._parts().door
    before = door._before_release
    with RawSlave(broker.ha_addr):
        broker.wait_for(lambda _: door._before_release != before)
        looks = door._before_release
        assert looks[: len(before)] == before
        assert looks[len(before) :] == (service_of(broker)._see,)
    broker.wait_for(lambda _: door._before_release != looks)
    assert door._before_release == before


def test_slaves_are_cut_off_by_a_reset_and_by_the_end(start_broker: StartBroker) -> None:
    broker = start_broker(config=SMALL, topics=["T"])
    address = broker.ha_addr
    with RawSlave(address) as first:
        first.report(1)
        service = service_of(broker)
        broker.wait_for(lambda _: bool(service.slaves))
        broker.reset()
        assert first.is_ended()
    send(broker, 2)
    end, log = log_of(broker)
    with RawSlave(address) as second:
        second.report(0)
        assert second.read_to(end) == log
        broker.restart()
        assert second.is_ended()
    assert broker.ha_addr == address


def test_a_connection_over_the_limit_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker(config={**SMALL, "maxConnections": 1})
    with RawSlave(broker.ha_addr) as first:
        first.report(1)
        service = service_of(broker)
        broker.wait_for(lambda _: bool(service.slaves))
        with RawSlave(broker.ha_addr) as second:
            assert second.is_ended()
        assert len(service.slaves) == 1


class FarTransport:
    """A socket that a slave of another host opened."""

    remote = ("192.0.2.9", 40_000)
    is_aborted = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("allowed", [False, True])
def test_a_slave_of_another_host_is_refused_unless_allowRemoteAdmin_is_set(  # noqa: N802
    start_broker: StartBroker, *, allowed: bool
) -> None:
    broker = start_broker(config=SMALL)
    said: list[str] = []
    transport, service = FarTransport(), service_of(broker)
    connection = HAConnection(TcpServer(), service, lambda: allowed, said.append)
    connection.connection_made(cast("SocketTransport", transport))
    assert transport.is_aborted or allowed
    assert len(service.slaves) == allowed
    assert ["192.0.2.9" in line for line in said] == ([] if allowed else [True])
    connection.connection_lost(None)
    assert not service.slaves
