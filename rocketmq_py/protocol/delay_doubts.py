"""Which requests for a delay no broker keeps as they are written, and why: found before a send.

A broker takes all of these, and the message arrives at another time than its sender meant, mostly
at once: a level that is negative or above the last one, a number that is negative or none, an
instant that looks like epoch seconds, several requests of which one wins, a name that only looks
like one of RocketMQ's, and any timer at a broker before 5.0. An instant that has passed is none of
them: "not before then" is kept by delivering at once, and only the broker's clock can tell.

Each doubt is an error that is ready to be raised. Whether it is raised, logged or passed over is
decided in ``client/delay_policy.py``. Must not know settings, clocks or messages.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from rocketmq_py.errors import DelayConflictError, DelayValueError
from rocketmq_py.protocol.codes import MQVersion, version_text
from rocketmq_py.protocol.delay import (
    DEFAULT_LEVELS,
    DEFAULT_LEVELS_MS,
    DELAY_PROPERTIES,
    INT64_MAX,
    LEGACY_DELAY_PROPERTIES,
    MILLISECONDS_FROM,
    SECONDS_ADVICE,
    SECONDS_DOUBT,
    TIMER_REQUEST_PROPERTIES,
    Delay,
    DelayKind,
    conflicts,
    effective_delay,
    parse_number,
)
from rocketmq_py.protocol.properties import KNOWN, Prop

_TIMER_PREFIX: Final = "TIMER_"
_LEVEL_NAMES: Final = tuple(DEFAULT_LEVELS.split())
_LAST_LEVEL: Final = len(_LEVEL_NAMES)
_LEVEL: Final = DelayKind.LEVEL


class Unkept(NamedTuple):
    """Numbers, `first` to `last`, that delay otherwise than they say: why, and what to do."""

    first: int
    last: int
    reason: str
    advice: str


def _unkept_of(kind: DelayKind) -> tuple[Unkept, ...]:
    what = "level" if kind is _LEVEL else "delay" if kind.is_relative else "time"
    negative = Unkept(
        -INT64_MAX - 1,
        -1,
        f"a negative {what} delays nothing, the message would be delivered at once",
        "clear_delay() says that none is meant",
    )
    above_the_last = Unkept(
        _LAST_LEVEL + 1,
        INT64_MAX,
        f"a broker shortens it to its last level, which is {_LAST_LEVEL} ({_LEVEL_NAMES[-1]}) "
        "unless its messageDelayLevel has more",
        "delay=timedelta(...) takes any time",
    )
    in_seconds = Unkept(1, MILLISECONDS_FROM - 1, SECONDS_DOUBT, SECONDS_ADVICE)
    if kind is _LEVEL:
        return negative, above_the_last
    return (negative,) if kind.is_relative else (negative, in_seconds)


UNKEPT: Final = MappingProxyType({str(kind.value): _unkept_of(kind) for kind in DelayKind})
"""Which numbers will not be kept, by the property that asks: for one message or for a column."""

_MARKS: Final = (
    _TIMER_PREFIX,
    *(f"{name}\x01" for name in DELAY_PROPERTIES if not name.startswith(_TIMER_PREFIX)),
)
"""One of these stands in every encoded text with a property that `concerns_delay`, in capitals."""


def concerns_delay(name: str) -> bool:
    """Whether a property of this name asks for a delay, or looks as if it should.

    >>> concerns_delay("TIMER_DELAY_SECS"), concerns_delay("TAGS")
    (True, False)
    """
    return name in DELAY_PROPERTIES or name.startswith(_TIMER_PREFIX) or _is_respelt(name)


def may_concern_delay(encoded: str) -> bool:
    r"""Whether there may be a property that `concerns_delay` in encoded ones, of many messages too.

    A glance without taking them apart: it overlooks none, and now and then takes a value for one.

    >>> may_concern_delay("MY_DELAY\x015\x02"), may_concern_delay("TAGS\x01a\x02")
    (True, False)
    """
    capitals = encoded.upper()
    return any(mark in capitals for mark in _MARKS)


def misspelt(name: str) -> str | None:
    """Say why a property of this name delays nothing although it looks so; None: it is another.

    >>> misspelt("TIMER_DELAY_SECS").partition(":")[0]
    'no broker knows it, so it delays nothing'
    >>> misspelt("TIMER_DELAY_SEC") is None
    True
    """
    if name in KNOWN or not (name.startswith(_TIMER_PREFIX) or _is_respelt(name)):
        return None
    import difflib  # only on the way to an error

    nearest = difflib.get_close_matches(name.upper(), sorted(LEGACY_DELAY_PROPERTIES), n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    return (
        f"no broker knows it, so it delays nothing: {hint}Names that begin with "
        f"{_TIMER_PREFIX} are RocketMQ's"
    )


def doubts(properties: Mapping[str, str]) -> list[DelayValueError]:
    """Give what will not be kept of the delays that properties ask for; mostly nothing.

    >>> [doubt.property_name for doubt in doubts({"DELAY": "19"})]
    ['DELAY']
    """
    found: list[DelayValueError] = []
    asked: list[str] = []
    for name, text in properties.items():
        if name in UNKEPT:
            asked.append(name)
        elif name not in KNOWN:
            reason = misspelt(name)
            if reason is not None:
                found.append(DelayValueError(name, text, reason))
    if len(asked) > 1 or Prop.TIMER_OUT_MS in properties:
        names = conflicts(properties)
        if names:
            found.append(_conflict(names, properties))
    for name in asked:
        try:
            _check_value(name, parse_number(properties[name], name))
        except DelayValueError as doubt:
            found.append(doubt)
    return found


def timer_asked(properties: Mapping[str, str]) -> Delay | None:
    """Give the request that only brokers from 5.0 on know, None if the message has none.

    ``__STARTDELIVERTIME`` alone is none: it is for vendors' brokers, whatever their version.

    >>> timer_asked({"DELAY": "3"}) is None, timer_asked({"TIMER_DELAY_SEC": "5"}).value
    (True, 5)
    """
    if TIMER_REQUEST_PROPERTIES.isdisjoint(properties):
        return None
    try:
        asked = effective_delay(properties, start_deliver=False)
    except DelayValueError:
        return None
    is_timer = asked is not None and asked.kind is not _LEVEL and asked.value > 0
    return asked if is_timer else None


def is_before_timers(version: int) -> bool:
    """Whether a broker of this version ignores timers; 0 is a server that tells none.

    >>> is_before_timers(MQVersion.V4_9_8), is_before_timers(MQVersion.V5_0_0)
    (True, False)
    """
    return 0 < version < MQVersion.V5_0_0


def too_old(timer: Delay, broker: str, version: int, now_ms: int) -> DelayValueError:
    """Make the doubt about a timer that goes to a broker before 5.0; names the nearest level."""
    level = nearest_level(timer.due_ms(now_ms) - now_ms)
    reason = (
        f"broker {broker} has version {version_text(version)} and would deliver it at once: "
        f"before 5.0.0 there are only delay levels. The nearest one is level {level} "
        f"({_LEVEL_NAMES[level - 1]}): set_delay_time_level({level})"
    )
    return DelayValueError(timer.kind.value, timer.value, reason)


def nearest_level(delay_ms: int) -> int:
    """Give the level of an unchanged broker that comes nearest to a delay; of two, the longer.

    >>> nearest_level(9_000), nearest_level(3_000), nearest_level(86_400_000)
    (3, 2, 18)
    """
    distances = [(abs(each - delay_ms), -level) for level, each in enumerate(DEFAULT_LEVELS_MS, 1)]
    return -min(distances)[1]


def _is_respelt(name: str) -> bool:
    """Whether only the case of letters keeps a name from asking for a delay.

    ``delay`` is a word that programs have for purposes of their own.
    """
    return name not in LEGACY_DELAY_PROPERTIES and name.upper() in LEGACY_DELAY_PROPERTIES


def _conflict(names: list[str], properties: Mapping[str, str]) -> DelayConflictError:
    winner, losers = names[0], ", ".join(names[1:])
    if winner == Prop.TIMER_OUT_MS:
        reason = (
            f"this message has been through a timer, so that {losers} may not count again: "
            "forward it with Message.from_ext and a new delay"
        )
    else:
        reason = f"it wins over {losers}: set one delay only, or clear_delay() first"
    return DelayConflictError(winner, properties[winner], reason)


def _check_value(name: str, value: int) -> None:
    """Raise DelayValueError for a number that is taken for another one, or for none."""
    for first, last, reason, advice in UNKEPT[name]:
        if first <= value <= last:
            raise DelayValueError(name, value, f"{reason}: {advice}")
