"""Backend ``process:VERSION`` of ``--rocketmq``: a real name server and broker, from jars.

Answers: how RocketMQ of a given version is started, what it writes, and how it ends. Must not know:
pytest. Read on: ``embedded_broker/kit/maven.py`` for the jars, ``embedded_broker/kit/jvm.py`` for
the processes.
"""

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final

from attrs import define

from embedded_broker.kit.backend import Ability, BackendError
from embedded_broker.kit.jvm import Jvm
from embedded_broker.kit.maven import release
from embedded_broker.kit.real import (
    BOOT_SECONDS,
    SETTINGS,
    RealBackend,
    settings_text,
    version_in,
    wait_until_registered,
    without_chatter,
)

NAMESRV: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER: Final = "org.apache.rocketmq.broker.BrokerStartup"
PROGRAMS: Final = {NAMESRV: ("128m", "namesrv.conf"), BROKER: ("512m", "broker.conf")}
"""Main class to its heap, and to its file of settings below the home."""
BOOTED: Final = "boot success"
PORT_TAKEN: Final = "Address already in use"
PORTS_TRIED: Final = 3
"""A port that was free may be somebody else's when a server asks for it, a second later."""
LOOPBACK: Final = "127.0.0.1"
PORTS: Final = range(15_000, 32_000)
"""Where servers listen: below the ports that Linux, macOS and Windows give to connections."""
PORT_GAP: Final = 3
"""A broker also takes the two ports below its own, for its fast clients."""

SERIAL_GC: Final = "-XX:+UseSerialGC"
"""Saves threads. No compiler is left out: with the first alone a broker starts with less work, but
an idle one, which compares its timer wheel once a second, then works almost three times as much."""
CLOSED_PACKAGES: Final = ("java.nio", "sun.nio.ch", "jdk.internal.ref")
OPENED: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # Java 8 has no packages to open
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in CLOSED_PACKAGES),
)
"""RocketMQ unmaps its files by way of packages that later releases of Java close."""
LINES_KEPT: Final = 2_000

LOG_BYTES: Final = 65_536
LOG_WIDTH: Final = 160
CHATTY_LOG: Final = "transaction.log"
"""5.x warns here of every empty queue, twice a minute."""
LOGBACK: Final = """<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d %-5level %logger{0} %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="out"/></root></configuration>
"""
"""4.9 does not start without a log configuration below its home."""


@define(eq=False)
class Servers:
    """A running pair of real servers and its store."""

    version: str
    namesrv_addr: str
    broker_addr: str
    home: Path
    _namesrv: Jvm | None
    """None when it runs elsewhere."""
    broker: Jvm
    _start: Callable[[str], Jvm]

    @property
    def namesrv(self) -> Jvm:
        """The name server, if it was started here."""
        if self._namesrv is None:
            raise BackendError(f"the name server at {self.namesrv_addr} runs elsewhere")
        return self._namesrv

    @property
    def store(self) -> Path:
        """The broker's store directory."""
        return self.home / "store"

    @property
    def broker_pid(self) -> int:
        """Process id of the broker."""
        return self.broker.process.pid

    def restart_broker(self, *, politely: bool) -> None:
        """End the broker, by SIGTERM or as by ``kill -9``, and start it on the same files."""
        self.broker.end(politely=politely)
        self.start_broker()

    def start_broker(self) -> None:
        """Start the broker, which has ended in whatever way, on the same files."""
        remove_unwritten(self.store)
        self.broker = self._start(BROKER)
        wait_until_registered(self.namesrv_addr, self.broker_addr)

    def start_namesrv(self) -> None:
        """Start the name server, which has ended; the broker registers again within seconds."""
        self._namesrv = self._start(NAMESRV)
        wait_until_registered(self.namesrv_addr, self.broker_addr)

    def end_namesrv(self, *, politely: bool) -> None:
        """End the name server, unless it runs elsewhere; idempotent."""
        if self._namesrv is not None:
            self._namesrv.end(politely=politely)

    def said(self) -> list[str]:
        """What both servers printed, and what their log files warn of."""
        printed = [] if self._namesrv is None else self._namesrv.said()
        lines = [f"name server: {line}" for line in without_chatter(printed)]
        lines += [f"broker: {line}" for line in without_chatter(self.broker.said())]
        for file in sorted((self.home / "logs").rglob("*.log")):
            lines += [f"{file.name}: {line}" for line in _warnings_at_the_end(file)]
        return lines


def remove_unwritten(store: Path) -> None:
    """Do what a broker before 5.0 asks its administrator for, if it was killed at a bad moment.

    A file of the log or of a queue that was made, but has no length yet, keeps it from starting.
    """
    for file in store.rglob("0" * 10 + "?" * 10):
        if file.is_file() and not file.stat().st_size:
            file.unlink()


def free_ports(count: int, *, gap: int = PORT_GAP) -> list[int]:
    """Give free loopback ports, ascending, ``gap`` apart: a broker also takes ports beside its own.

    They lie below those that the system gives to connections, so that nobody gets one while its
    server is restarted. Raises ``BackendError`` when there are too few.
    """
    found: list[int] = []
    for port in SystemRandom().sample(PORTS, len(PORTS)):
        is_apart = all(abs(port - one) >= gap for one in found)
        if is_apart and all(map(_is_free, range(port - gap + 1, port + 1))):
            found.append(port)
        if len(found) == count:
            return sorted(found)
    raise BackendError(f"there are no {count} free ports from {PORTS.start} to {PORTS.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _warnings_at_the_end(file: Path) -> list[str]:
    marks = (" ERROR ",) if file.name == CHATTY_LOG else (" WARN ", " ERROR ")
    with file.open("rb") as log:
        log.seek(max(0, file.stat().st_size - LOG_BYTES))
        text = log.read().decode(errors="replace")
    return [line[:LOG_WIDTH] for line in text.splitlines() if any(one in line for one in marks)]


@contextlib.contextmanager
def servers(
    home: Path,
    version: str,
    *,
    settings: dict[str, str] | None = None,
    cache: Path | None = None,
    politely: bool = True,
    beside: Servers | str | None = None,
) -> Iterator[Servers]:
    """Run both servers below ``home``, on free ports of loopback.

    ``settings`` go over those of a broker for tests. At the end the processes are stopped by
    SIGTERM, which takes RocketMQ ten seconds and leaves a clean store; without ``politely`` they
    are killed. ``beside``: start a broker only, for the name server of another pair, or the one at
    an address; give it a ``brokerName``. Raises `BackendError` with what they printed when they do
    not start.
    """
    jars = release(version, "rocketmq-namesrv", "rocketmq-broker", cache=cache)
    wanted = _Wanted(home, version, jars, settings or {}, beside, politely)
    with contextlib.ExitStack() as stack:
        for is_last in (*[False] * (PORTS_TRIED - 1), True):
            try:
                pair = wanted.start(stack)
                break
            except BackendError as error:
                stack.close()
                if is_last or PORT_TAKEN not in str(error):
                    raise
        yield pair


@define(eq=False)
class _Wanted:
    """What is to run, as ``servers`` was told; ``jars`` are those of the version."""

    home: Path
    version: str
    jars: Path
    settings: dict[str, str]
    beside: Servers | str | None
    politely: bool

    def start(self, stack: contextlib.ExitStack) -> Servers:
        """Start both servers on ports that are free now; ``stack`` ends what has started."""
        beside, politely = self.beside, self.politely
        namesrv_port, broker_port, ha_port = free_ports(3)
        namesrv_addr = f"{LOOPBACK}:{namesrv_port}"
        if beside is not None:
            namesrv_addr = beside if isinstance(beside, str) else beside.namesrv_addr
        own = {"namesrvAddr": namesrv_addr, **self.settings}
        _write_home(self.home, namesrv_port, broker_port, ha_port, own)
        start = partial(self._run, namesrv_addr)
        namesrv = beside.namesrv if isinstance(beside, Servers) else None
        if beside is None:
            namesrv = start(NAMESRV)
            stack.callback(namesrv.end, politely=politely)
        pair = Servers(
            self.version,
            namesrv_addr,
            f"{LOOPBACK}:{broker_port}",
            self.home,
            namesrv,
            start(BROKER),
            start,
        )
        if beside is None:
            stack.callback(pair.end_namesrv, politely=politely)  # a later one, perhaps
        stack.callback(lambda: pair.broker.end(politely=politely))
        wait_until_registered(namesrv_addr, pair.broker_addr)
        return pair

    def _run(self, namesrv_addr: str, main: str) -> Jvm:
        """Start one of the two programs; returns when it says that it has."""
        heap, file = PROGRAMS[main]
        arguments = [f"-Xms{heap}", f"-Xmx{heap}", SERIAL_GC, *OPENED]
        arguments += [f"-Duser.home={self.home}", "-cp", f"{self.jars}/*"]
        arguments += [main, "-c", str(self.home / file)]
        env = {"ROCKETMQ_HOME": str(self.home), "NAMESRV_ADDR": namesrv_addr}
        jvm = Jvm.start(arguments, env=env, cwd=self.home, keep=LINES_KEPT)
        try:
            jvm.wait_for_line(BOOTED, BOOT_SECONDS)
        except BaseException:
            jvm.end(politely=False)
            raise
        return jvm


def _write_home(
    home: Path, namesrv_port: int, broker_port: int, ha_port: int, settings: dict[str, str]
) -> None:
    store = home / "store"
    store.mkdir(parents=True, exist_ok=True)
    conf = home / "conf"
    conf.mkdir(exist_ok=True)
    for name in ("logback_namesrv.xml", "logback_broker.xml"):
        (conf / name).write_text(LOGBACK, encoding="utf-8")
    (home / "namesrv.conf").write_text(f"listenPort={namesrv_port}\n", encoding="utf-8")
    options = {
        **SETTINGS,
        "brokerIP1": LOOPBACK,
        "listenPort": str(broker_port),
        "haListenPort": str(ha_port),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        **settings,
    }
    (home / "broker.conf").write_text(settings_text(options), encoding="utf-8")


class ProcessBackend(RealBackend):
    """``process:VERSION``: real servers from Maven's jars, for as long as the tests run.

    Needs ``java``, and ``mvn`` the first time a version is asked for.
    """

    def __init__(self, version: str, *, cache: Path | None = None) -> None:
        super().__init__(f"process:{version}", version_in(version))
        self.abilities |= {Ability.REOPEN}
        self._release = version
        self._cache = cache
        self._stack = contextlib.ExitStack()
        self._servers: Servers | None = None
        self._said: list[str] = []

    @property
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server. Known after ``start``."""
        return self._running().namesrv_addr

    def reopen(self, *, crash: bool = False) -> None:
        """End the broker and start it again on its files; ``crash``: as ``kill -9`` does."""
        self._running().restart_broker(politely=not crash)

    def log_tail(self, lines: int = 40) -> list[str]:
        """Return the last lines of the broker and the name server, after ``stop`` too."""
        if self._servers is None:
            return self._said[-lines:]
        return self._servers.said()[-lines:]

    def _running(self) -> Servers:
        if self._servers is None:
            raise BackendError(f"{self.name} is not started")
        return self._servers

    def _start(self) -> None:
        with contextlib.ExitStack() as stack:
            home = Path(tempfile.mkdtemp(prefix=f"rocketmq-{self._release}-"))
            stack.callback(shutil.rmtree, home, ignore_errors=True)
            # Nobody reads the store again, so its ten seconds of clean-up can be spared.
            running = servers(home, self._release, cache=self._cache, politely=False)
            self._servers = stack.enter_context(running)
            self._stack = stack.pop_all()

    def _stop(self) -> None:
        """End both processes and remove their files. What they wrote stays readable."""
        if self._servers is not None:
            self._said = self.log_tail(LINES_KEPT)
            self._servers = None
            self._stack.close()
