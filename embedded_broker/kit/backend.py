"""Backends: which broker a test runs on, and what that broker can do.

Answers: what the option ``--rocketmq`` says, and what the kit asks of the broker behind it. Must
not know: pytest, or how any broker is started. Read on: ``embedded_broker/kit/backends.py`` for
which class serves which kind.
"""

import re
from abc import ABC, abstractmethod
from enum import Enum
from typing import Final, Literal, Self

from attrs import frozen

from rocketmq_py.errors import ConfigError, RocketMQError

BackendKind = Literal["embedded", "process", "container", "address"]

OPTION: Final = "--rocketmq"
FORMS: Final = "embedded, process:VERSION, container[:IMAGE] or HOST:PORT"
DEFAULT_IMAGE: Final = "apache/rocketmq:5.3.3"
DEFAULT_QUEUES: Final = 4
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")
_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


class Ability(Enum):
    """What a test may ask of a broker. The value is what a skip says the broker lacks."""

    VIRTUAL_CLOCK = "a clock that the test moves"
    FAULTS = "faults on purpose"
    CRASH = "crashes on purpose"
    REOPEN = "a store that is opened again"
    VIEWS = "a look inside (timers, groups, journal)"
    CONFIG = "settings of the test's own"
    CREATE_TOPICS = "topics that a test creates"
    TIMERS = "delays of any length"
    RECALL = "recalls of delayed messages"
    CLUSTER = "several brokers that a test starts and stops"


@frozen
class BackendSpec:
    """What ``--rocketmq=...`` asked for.

    ``target`` is the version of ``process``, the image of ``container``, or the address of a name
    server. It is empty for ``embedded``.
    """

    kind: BackendKind
    target: str = ""

    def __str__(self) -> str:
        if self.kind == "address":
            return self.target
        return f"{self.kind}:{self.target}" if self.target else self.kind


def parse_backend(text: str) -> BackendSpec:
    """Read the value of ``--rocketmq``; ``ConfigError`` says what is wrong and what is possible.

    >>> parse_backend("process:5.3.3")
    BackendSpec(kind='process', target='5.3.3')
    >>> str(parse_backend("container"))
    'container:apache/rocketmq:5.3.3'
    """
    kind, colon, target = text.strip().partition(":")
    match kind:
        case "embedded" if not colon:
            return BackendSpec("embedded")
        case "embedded":
            raise ConfigError(OPTION, text, "embedded alone: it has no versions")
        case "process" if _VERSION.fullmatch(target):
            return BackendSpec("process", target)
        case "process":
            raise ConfigError(OPTION, text, "process with a version, such as process:5.3.3")
        case "container" if colon and (not target or re.search(r"\s", target)):
            raise ConfigError(OPTION, text, f"container, or container:IMAGE ({DEFAULT_IMAGE})")
        case "container":
            return BackendSpec("container", target or DEFAULT_IMAGE)
        case _:
            return _address(text.strip())


def _address(text: str) -> BackendSpec:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise ConfigError(OPTION, text, FORMS)
    if not 1 <= int(found["port"]) <= 65_535:
        raise ConfigError(OPTION, text, "HOST:PORT with a port from 1 to 65535")
    return BackendSpec("address", text)


class BackendError(RocketMQError):
    """A broker for tests could not be started; the text says what is missing, or its last words."""


class Backend(ABC):
    """One broker with its name server, as the kit sees it.

    It is started once, shared by the tests that may share it, and stopped at the end. ``name`` is
    the value of ``--rocketmq``. ``version`` is RocketMQ's, None where nobody said it.
    """

    name: str
    version: tuple[int, ...] | None = None
    abilities: frozenset[Ability] = frozenset()

    @property
    @abstractmethod
    def namesrv_addr(self) -> str:
        """``host:port`` of the name server. Known after ``start``."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and return when clients can send. Bounded in time."""

    @abstractmethod
    def stop(self) -> None:
        """Stop, and leave nothing behind. Idempotent, and bounded in time."""

    @abstractmethod
    def create_topic(self, name: str, queues: int = DEFAULT_QUEUES) -> None:
        """Create a topic, and return when routes show it. One that exists stays as it is."""

    def log_tail(self, lines: int = 40) -> list[str]:  # noqa: ARG002
        """Return the last lines that the servers wrote, for the report of a failed test."""
        return []

    def reopen(self, *, crash: bool = False) -> None:
        """End and start again with the same addresses and data; ``crash``: as ``kill -9`` does.

        For those with the abilities REOPEN and CRASH. Returns when clients can send. Raises
        ``BackendError`` for others, and when the broker cannot be started.
        """
        raise BackendError(self.why_not(Ability.CRASH if crash else Ability.REOPEN))

    def why_not(self, ability: Ability) -> str:
        """Say in a sentence, for a skip, that this broker lacks an ability."""
        return f"{self.name} does not offer {ability.value}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.stop()
