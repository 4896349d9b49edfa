"""Options of ``@pytest.mark.rocketmq(...)`` and of a run of pytest.

Answers: which arguments the marks of a test add up to, which abilities of the broker they need, and
what is wrong with them. Must not know: pytest, or how a broker is started. Read on:
``embedded_broker/kit/fixture_broker.py``, which starts what was asked for.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Literal, cast
from zlib import crc32

from attrs import field, frozen

from embedded_broker.kit.backend import Ability, BackendSpec
from embedded_broker.lifecycle.arguments import Topics, TopicSpec, topic_specs
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
class MarkOptions:
    """What the marks of one test ask for, the nearest mark first."""

    topics: tuple[TopicSpec, ...] = ()
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

    @property
    def settings_of_a_broker(self) -> dict[str, object]:
        """Those that no real broker can have; wall time is what it does have."""
        return {name: one for name, one in self.settings.items() if name != "virtual_clock"}


def mark_options_of(
    marks: Iterable[tuple[tuple[object, ...], Mapping[str, object]]],
) -> MarkOptions:
    """Add up marks, given as arguments and keywords, the nearest to the test first.

    The nearest mark decides. ``topics`` and ``config`` of all marks count together. Raises
    ``ConfigError`` for what no mark can ask for.

    >>> [one.name for one in mark_options_of([((), {"topics": ["Orders"]})]).topics]
    ['Orders']
    """
    given: dict[str, object] = {}
    config: dict[str, object] = {}
    topics: dict[str, TopicSpec] = {}
    for args, keywords in marks:
        if args:
            raise ConfigError(
                "@pytest.mark.rocketmq", args[0], "keywords only, such as topics=['Orders']"
            )
        for name, value in keywords.items():
            _check(name, value)
            given.setdefault(name, value)
        for spec in topic_specs(cast("Topics", keywords.get("topics", ()))):
            topics.setdefault(spec.name, spec)
        config = {**cast("Mapping[str, object]", keywords.get("config", {})), **config}
    return MarkOptions(
        topics=tuple(topics.values()),
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
    is_right, right = _RIGHT.get(name, (_is_anything, ""))
    if not is_right(value):
        raise ConfigError(f"@pytest.mark.rocketmq({name}=...)", value, right)


def _is_anything(_value: object) -> bool:
    return True  # the broker checks its own arguments


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


_RIGHT: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "config": (lambda value: isinstance(value, Mapping), "a dict of options"),
    "start": (
        lambda value: isinstance(value, datetime) and value.tzinfo is not None,
        "an aware datetime",
    ),
    "brokers": (lambda value: type(value) is int and value > 0, "a number from 1"),
    **dict.fromkeys(("strict", "leave_open", *NEEDS), (_is_bool, "True or False")),
}
"""Argument of the mark to what it must be, and that in words."""


def _arguments_of_a_broker() -> set[str]:
    from embedded_broker.api.broker import EmbeddedBroker

    return set(inspect.signature(EmbeddedBroker.__init__).parameters) - _NOT_OURS


@frozen(kw_only=True)
class RunOptions:
    """What the options of a whole run ask for."""

    backend: BackendSpec
    scope: Scope = "function"
    strict: bool = False
    seed: int = 0
    patience_s: float = 60.0

    def seed_of(self, test: str) -> int:
        """Give the seed of one test: the same in every order and on every worker."""
        return crc32(f"{self.seed}:{test}".encode())
