"""How real servers are started: their files, their ports, and what is left when they fail."""

from __future__ import annotations

import itertools
import signal
import socket
import tempfile
from pathlib import Path

import pytest

from embedded_broker.kit import process
from embedded_broker.kit.backend import Ability, BackendError
from embedded_broker.kit.process import ProcessBackend, free_ports, remove_unwritten, servers
from tests.unit.embedded_broker.kit.conftest import FakeProgram

# Says what a server says when it is up, and keeps its command line.
SERVER = 'echo "$@" >> "$ROCKETMQ_HOME/commands"; echo "The server boot success"; exec sleep 60'
FAILS = 'echo "there is no memory for it"; exit 1'


@pytest.fixture
def cache(tmp_path: Path, fake_program: FakeProgram) -> Path:
    fake_program("mvn", "mkdir lib")
    fake_program("java", SERVER)
    return tmp_path / "cache"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "wait_until_registered", lambda *_: None)


def test_ports_are_far_enough_apart_for_a_broker() -> None:
    ports = free_ports(3)
    assert len(set(ports)) == 3
    assert min(b - a for a, b in itertools.pairwise(ports)) >= 3


def test_ports_are_none_that_connections_get_or_that_somebody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (taken,) = free_ports(1)
    monkeypatch.setattr(process, "PORTS", range(taken, taken + 8))
    with socket.create_server((process.LOOPBACK, taken + 2)):
        (port,) = free_ports(1)
        assert port in {taken, taken + 1, taken + 5, taken + 6, taken + 7}
        with pytest.raises(BackendError, match=rf"no 9 free ports from {taken} to {taken + 7}"):
            free_ports(9)
    lowest = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if lowest.exists():
        assert process.PORTS.stop <= int(lowest.read_text().split()[0])


def test_files_without_a_length_are_removed_after_a_kill_and_no_others(tmp_path: Path) -> None:
    empty, full, other = (
        tmp_path / "consumequeue" / "T" / "2" / ("0" * 20),
        tmp_path / "commitlog" / ("0" * 20),
        tmp_path / "abort",
    )
    for file in (empty, full, other):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    full.write_bytes(b"x")
    remove_unwritten(tmp_path)
    assert [file.exists() for file in (empty, full, other)] == [False, True, True]


def test_both_servers_are_told_where_they_are_and_what_to_do(
    tmp_path: Path, cache: Path, registered: None
) -> None:
    home = tmp_path / "home"
    with servers(home, "5.3.3", settings={"brokerRole": "X"}, cache=cache) as pair:
        conf = dict(line.split("=", 1) for line in (home / "broker.conf").read_text().splitlines())
        commands = (home / "commands").read_text().splitlines()
        assert pair.store == home / "store"
        assert any("broker: The server boot success" in line for line in pair.said())
    assert conf["namesrvAddr"] == pair.namesrv_addr
    assert f"{conf['brokerIP1']}:{conf['listenPort']}" == pair.broker_addr
    assert conf["storePathRootDir"] == str(pair.store)
    assert conf["timerWheelEnable"] == conf["recallMessageEnable"] == "true"
    assert conf["brokerRole"] == "X"
    namesrv, broker = commands
    assert namesrv.endswith(f"NamesrvStartup -c {home}/namesrv.conf")
    assert broker.endswith(f"BrokerStartup -c {home}/broker.conf")
    assert pair.namesrv.process.poll() is not None
    assert pair.broker.process.poll() is not None


def test_ports_that_somebody_else_has_taken_meanwhile_are_exchanged(
    tmp_path: Path, cache: Path, fake_program: FakeProgram, registered: None
) -> None:
    taken = 'if [ ! -e "$ROCKETMQ_HOME/again" ]; then touch "$ROCKETMQ_HOME/again"; '
    fake_program(
        "java", taken + f'echo "BindException: Address already in use"; exit 1; fi; {SERVER}'
    )
    with servers(tmp_path / "home", "5.3.3", cache=cache) as pair:
        conf = (tmp_path / "home" / "broker.conf").read_text()
        assert f"listenPort={pair.broker_addr.rpartition(':')[2]}\n" in conf
        assert f"namesrvAddr={pair.namesrv_addr}\n" in conf


def test_what_else_keeps_a_server_from_starting_is_told_at_once(
    tmp_path: Path, cache: Path, fake_program: FakeProgram, registered: None
) -> None:
    fake_program("java", f'touch "$ROCKETMQ_HOME/$$"; {FAILS}')
    with (
        pytest.raises(BackendError, match="no memory"),
        servers(tmp_path / "home", "5.3.3", cache=cache),
    ):
        pass
    assert len([one for one in (tmp_path / "home").iterdir() if one.name.isdigit()]) == 1


def test_a_broker_beside_a_pair_has_that_name_server_and_leaves_it_running(
    tmp_path: Path, cache: Path, registered: None
) -> None:
    with servers(tmp_path / "a", "5.3.3", cache=cache) as first:
        second = tmp_path / "b"
        with servers(second, "5.3.3", settings={"brokerName": "b"}, cache=cache, beside=first) as b:
            assert f"namesrvAddr={first.namesrv_addr}\n" in (second / "broker.conf").read_text()
            assert len((second / "commands").read_text().splitlines()) == 1
        assert b.broker.process.poll() is not None
        assert first.namesrv.process.poll() is None


def test_each_server_of_a_pair_is_started_again_by_itself_and_ends_with_the_pair(
    tmp_path: Path, cache: Path, registered: None
) -> None:
    with servers(tmp_path / "home", "5.3.3", cache=cache) as pair:
        for jvm, start in (
            (pair.namesrv, pair.start_namesrv),
            (pair.broker, pair.start_broker),
        ):
            jvm.end(politely=False)
            start()
        commands = (pair.home / "commands").read_text().splitlines()
    assert commands[:2] == commands[2:]
    assert pair.namesrv.process.poll() is not None
    assert pair.broker.process.poll() is not None


def test_warnings_of_log_files_are_among_what_was_said(
    tmp_path: Path, cache: Path, registered: None
) -> None:
    with servers(tmp_path / "home", "5.3.3", cache=cache) as pair:
        logs = pair.home / "logs" / "rocketmqlogs"
        logs.mkdir(parents=True)
        (logs / "store.log").write_text("x INFO a\nx WARN b\nx ERROR c\n", encoding="utf-8")
        (logs / "transaction.log").write_text("x WARN d\nx ERROR e\n", encoding="utf-8")
        assert pair.said()[-3:] == [
            "store.log: x WARN b",
            "store.log: x ERROR c",
            "transaction.log: x ERROR e",
        ]


def test_a_backend_stops_its_processes_and_removes_its_files(
    tmp_path: Path, cache: Path, registered: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    backend = ProcessBackend("4.9.7", cache=cache)
    assert (backend.name, backend.version) == ("process:4.9.7", (4, 9, 7))
    with backend:
        assert backend.start() is backend  # a second start changes nothing
        pair = backend._servers
        assert pair is not None
        assert backend.namesrv_addr == pair.namesrv_addr
        assert pair.home.is_dir()
    backend.stop()
    assert pair.broker.process.poll() is not None
    assert not pair.home.exists()
    assert backend.log_tail(1) == ["broker: The server boot success"]
    with pytest.raises(BackendError, match=r"process:4\.9\.7 is not started"):
        _ = backend.namesrv_addr


def test_a_store_is_opened_again_by_another_broker_process_on_the_same_port(
    cache: Path, registered: None
) -> None:
    with ProcessBackend("5.3.3", cache=cache) as backend:
        assert Ability.REOPEN in backend.abilities
        pair = backend._servers
        assert pair is not None
        first = pair.broker
        unwritten = pair.store / "consumequeue" / ("0" * 20)
        unwritten.parent.mkdir()
        unwritten.touch()
        backend.reopen(crash=True)
        assert not unwritten.exists()
        assert first.process.returncode == -signal.SIGKILL
        second = pair.broker
        backend.reopen()
        assert second.process.returncode == -signal.SIGTERM
        commands = (pair.home / "commands").read_text().splitlines()
        assert commands[1] == commands[2] == commands[3]
    assert pair.broker.process.poll() is not None


def test_a_broker_that_does_not_start_takes_the_name_server_and_the_files_with_it(
    tmp_path: Path,
    cache: Path,
    fake_program: FakeProgram,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pid = tmp_path / "pid"
    fake_program(
        "java",
        f'case "$*" in *Broker*) echo "no room"; exit 1;; *) echo $$ > {pid}; {SERVER};; esac',
    )
    with pytest.raises(BackendError, match=r"(?s)ended.*no room"):
        ProcessBackend("5.3.3", cache=cache).start()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert list(tmp_path.glob("rocketmq-*")) == []
