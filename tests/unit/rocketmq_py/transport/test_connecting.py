"""A try to connect ends once, waits for nobody's thread, and shares its time over addresses."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from rocketmq_py.client.background import Timer
from rocketmq_py.transport.connecting import Connecting
from rocketmq_py.transport.io_thread import IoThread
from tests.black_hole import BlackHole
from tests.unit.rocketmq_py.scripted import ScriptedServer


class Outcome:
    """Takes how a try ended."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.times = 0
        self.sock: socket.socket | None = None
        self.error: OSError | None = None

    def __call__(self, sock: socket.socket | None, error: OSError | None) -> None:
        self.times += 1
        self.sock, self.error = sock, error
        self.told.set()

    def wait(self) -> OSError | None:
        assert self.told.wait(30)
        if self.sock is not None:
            self.sock.close()
        return self.error


@pytest.fixture(params=[False, True], ids=["epoll", "portable"])
def io(request: pytest.FixtureRequest) -> Iterator[IoThread]:
    thread = IoThread("watcher", portable=request.param)
    yield thread
    thread.close(5)


Try = Callable[..., tuple[Connecting, Outcome]]


@pytest.fixture
def begin(io: IoThread, timer: Timer) -> Try:
    def make(
        address: str,
        timeout_ms: float = 5_000,
        look_up: Callable[[Callable[[], None]], bool] = lambda _: pytest.fail("a number"),
    ) -> tuple[Connecting, Outcome]:
        outcome = Outcome()
        connecting = Connecting(
            address,
            timeout_ms,
            io_thread=io,
            schedule=timer.schedule_after,
            look_up=look_up,
            done=outcome,
        )
        return connecting, outcome

    return make


def on_a_thread(task: Callable[[], None]) -> bool:
    threading.Thread(target=task, daemon=True).start()
    return True


def test_a_listening_server_is_reached(begin: Try, server: ScriptedServer) -> None:
    _, outcome = begin(server.address)
    assert outcome.wait() is None
    assert outcome.sock is not None


def test_a_port_without_listener_is_a_refusal(begin: Try) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    _, outcome = begin(f"127.0.0.1:{port}")
    assert isinstance(outcome.wait(), ConnectionRefusedError)


def test_a_host_that_does_not_answer_is_given_up_in_time(begin: Try) -> None:
    with BlackHole() as hole:
        _, outcome = begin(hole.address, 50)
        assert isinstance(outcome.wait(), TimeoutError)
        assert outcome.times == 1


def test_a_try_that_is_given_up_ends_at_once_and_once(begin: Try) -> None:
    with BlackHole() as hole:
        connecting, outcome = begin(hole.address, 60_000)
        connecting.cancel()
        connecting.cancel()
        assert outcome.wait() is not None
        assert outcome.times == 1
        assert connecting.fileno() == -1


def test_a_name_is_looked_up_elsewhere(begin: Try, server: ScriptedServer) -> None:
    tasks: list[Callable[[], None]] = []

    def later(task: Callable[[], None]) -> bool:
        tasks.append(task)
        return True

    _, outcome = begin(f"localhost:{server.port}", look_up=later)
    assert not outcome.told.is_set()
    on_a_thread(tasks[0])
    # One of the name's addresses may have no listener: the next one is tried.
    assert outcome.wait() is None


def test_a_name_that_nobody_knows_is_an_error(begin: Try) -> None:
    _, outcome = begin("no-such-host.invalid:1", look_up=on_a_thread)
    assert isinstance(outcome.wait(), socket.gaierror)
    _, outcome = begin("no-such-host.invalid:1", look_up=lambda _: False)
    assert "too much work" in str(outcome.wait())


def test_addresses_of_a_name_share_the_time(
    begin: Try, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BlackHole() as hole:
        places = [("127.0.0.1", hole.port), ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        _, outcome = begin("1.2.3.4:5", 200)
        assert outcome.wait() is None


def test_a_place_for_which_there_is_no_socket_is_one_that_fails(
    begin: Try, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, left = socket.socket, [1]
    with BlackHole() as hole:

        def run_out(*args: int) -> socket.socket:
            if not left:
                raise OSError(errno.EMFILE, "no descriptor is left")
            left.pop()
            return make(*args)

        places = [("127.0.0.1", hole.port), ("127.0.0.1", server.port)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(socket, "socket", run_out)
        _, outcome = begin("1.2.3.4:5", 200)
        error = outcome.wait()
    assert error is not None
    assert error.errno == errno.EMFILE
