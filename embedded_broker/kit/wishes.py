"""What a test asks for with ``@pytest.mark.rocketmq(...)``, and what a run asks for by options.

Answers: which arguments the marks of a test add up to, which abilities of the broker they need, and
what is wrong with them. Must not know: pytest, or how a broker is started. Read on:
``embedded_broker/kit/bench.py``, which starts what was asked for.
"""

import inspect
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, Literal, cast
from zlib import crc32

from attrs import field, frozen

from embedded_broker.kit.backend import Ability, BackendSpec
from rocketmq_py.errors import ConfigError

Scope = Literal["function", "module", "session"]

BEGINNING: Final = datetime(2030, 1, 1, tzinfo=UTC)
"""The time at which each test begins."""

NEEDS: Final[dict[str, Ability]] = {
    "virtual_clock": Ability.VIRTUAL_CLOCK,
    "faults": Ability.FAULTS,
    "crash": Ability.CRASH,
    "reopen": Ability.REOPEN,
    "views": Ability.VIEWS,
    "timers": Ability.TIMERS,
    "recall": Ability.RECALL,
}
"""Argument of the mark to the ability that a test needs when the argument is true."""

_OWN: Final = ("topics", "config", "start", "strict", "leave_open", "brokers", *NEEDS)
_NOT_OURS: Final = frozenset({"self", "clock", "session_clock", "store", "seed", "fs"})
"""Arguments of ``EmbeddedBroker`` that the fixtures set: the mark does not take them."""


@frozen(kw_only=True)
class Wishes:
    """What the marks of one test ask for, the nearest mark first."""

    topics: tuple[Any, ...] = ()  # names, or TopicSpec
    config: Mapping[str, object] = field(factory=dict)
    start: datetime = BEGINNING
    wall_clock: bool = False
    strict: bool | None = None
    leave_open: bool = False
    brokers: int = 3
    needs: tuple[Ability, ...] = ()
    arguments: Mapping[str, object] = field(factory=dict)
    """Further arguments for ``EmbeddedBroker``, such as ``profile``."""

    @property
    def settings(self) -> dict[str, object]:
        """What only a broker of the test's own can have."""
        found: dict[str, object] = dict(self.arguments)
        if self.config:
            found["config"] = dict(self.config)
        if self.start != BEGINNING:
            found["start"] = self.start
        if self.wall_clock:
            found["virtual_clock"] = False
        if self.strict is not None:
            found["strict"] = self.strict
        return found


def wishes_of(marks: Iterable[tuple[tuple[object, ...], Mapping[str, object]]]) -> Wishes:
    """Add up marks, given as arguments and keywords, the nearest to the test first.

    The nearest mark decides. ``topics`` and ``config`` of all marks count together. Raises
    ``ConfigError`` for what no mark can ask for.

    >>> wishes_of([((), {"timers": True}), ((), {"topics": ["Orders"]})]).topics
    ('Orders',)
    """
    given: dict[str, object] = {}
    config: dict[str, object] = {}
    topics: dict[object, None] = {}
    for args, keywords in marks:
        if args:
            raise ConfigError(
                "@pytest.mark.rocketmq", args[0], "keywords only, such as topics=['Orders']"
            )
        for name, value in keywords.items():
            _check(name, value)
            given.setdefault(name, value)
        topics.update(dict.fromkeys(cast("Iterable[object]", keywords.get("topics", ()))))
        config = {**cast("Mapping[str, object]", keywords.get("config", {})), **config}
    return Wishes(
        topics=tuple(topics),
        config=config,
        start=cast("datetime", given.get("start", BEGINNING)),
        wall_clock=given.get("virtual_clock", True) is False,
        strict=cast("bool | None", given.get("strict")),
        leave_open=bool(given.get("leave_open", False)),
        brokers=cast("int", given.get("brokers", 3)),
        needs=tuple(ability for name, ability in NEEDS.items() if given.get(name)),
        arguments={name: value for name, value in given.items() if name not in _OWN},
    )


def _check(name: str, value: object) -> None:
    known = [*_OWN, *sorted(_arguments_of_a_broker())]
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ConfigError(
            "@pytest.mark.rocketmq", f"{name}=...", f"one of {', '.join(known)}{hint}"
        )
    if name == "topics" and (isinstance(value, str) or not isinstance(value, Iterable)):
        raise ConfigError("@pytest.mark.rocketmq(topics=...)", value, "a list of names")
    if name == "config" and not isinstance(value, Mapping):
        raise ConfigError("@pytest.mark.rocketmq(config=...)", value, "a dict of options")
    if name == "start" and not (isinstance(value, datetime) and value.tzinfo is not None):
        raise ConfigError("@pytest.mark.rocketmq(start=...)", value, "an aware datetime")


def _arguments_of_a_broker() -> set[str]:
    from embedded_broker.api.broker import EmbeddedBroker

    return set(inspect.signature(EmbeddedBroker.__init__).parameters) - _NOT_OURS


@frozen(kw_only=True)
class RunWishes:
    """What the options of a whole run ask for."""

    backend: BackendSpec
    scope: Scope = "function"
    strict: bool = False
    seed: int = 0
    patience_s: float = 60.0

    def seed_of(self, test: str) -> int:
        """Give the seed of one test: the same in every order and on every worker."""
        return crc32(f"{self.seed}:{test}".encode())
