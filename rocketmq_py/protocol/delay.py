"""How a message asks to arrive later, which request wins, and when it is due.

A delay is nothing but a property. Five properties can carry one, and RocketMQ gives them a fixed
order; the first one present decides and the others are not even read:

===  =====================  ===================  ========================================
 #   property               `DelayKind`          value
===  =====================  ===================  ========================================
 1   ``DELAY``              ``LEVEL``            delay level; 0 and below mean none
 2   ``TIMER_DELAY_SEC``    ``SEC``              seconds after arrival at the broker
 3   ``TIMER_DELAY_MS``     ``MS``               milliseconds after arrival at the broker
 4   ``TIMER_DELIVER_MS``   ``DELIVER_AT``       epoch milliseconds
 5   ``__STARTDELIVERTIME`` ``START_DELIVER``    epoch milliseconds; 0 and below mean none
===  =====================  ===================  ========================================

Between 1 and 2 stands a guard: a message that carries ``TIMER_OUT_MS`` has already been through
the timer, so 2 to 5 no longer count (the order of ``HookUtils.handleScheduleMessage``). Row 5 is
Aliyun's name; a real open-source broker ignores it, so the client translates it when it sends and
the embedded broker understands it.

The path of one message through this file: a setter makes a `Delay` (`Delay.of`), the broker reads
it back (`effective_delay`), turns it into a time (`Delay.due_ms`), the time into a wheel slot
(`timer_out_ms`), and at the end the slot back into the exact time (`release_due_ms`). Levels take
their own, shorter path (`parse_levels`, `level_due_ms`).

Both sides import these rules from here, so they cannot disagree. This module must not know
messages, clocks or stores: texts and numbers in, texts and numbers out. Refusals by configured
limits (how far away is too far) belong to the broker's admission, `embedded_broker.timer`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum, IntEnum
from typing import Final, Literal, NamedTuple

from rocketmq_py.errors import ConfigError, DelayValueError
from rocketmq_py.protocol.properties import OWN_TIMER_PROPERTIES, Prop

INT64_MAX: Final = 2**63 - 1
INT32_MAX: Final = 2**31 - 1
_INT64_DIGITS: Final = 19
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_MS: Final = timedelta.max // _MILLISECOND
_LAST_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


# --- asking --------------------------------------------------------------------------------


class DelayKind(Enum):
    """The five ways to ask, in the order in which they win; the value is the property's name."""

    LEVEL = Prop.DELAY
    SEC = Prop.TIMER_DELAY_SEC
    MS = Prop.TIMER_DELAY_MS
    DELIVER_AT = Prop.TIMER_DELIVER_MS
    START_DELIVER = Prop.START_DELIVER_TIME

    @property
    def is_relative(self) -> bool:
        """Whether the time counts from the message's arrival at the broker."""
        return self is not DelayKind.DELIVER_AT and self is not DelayKind.START_DELIVER

    @property
    def python_form(self) -> str:
        """What a Python program writes instead, for hints."""
        if self is DelayKind.LEVEL:
            return "DelayLevel"
        return "delay=timedelta(...)" if self.is_relative else "deliver_at=datetime(...)"


class DelayLevel(IntEnum):
    """The eighteen levels of an unchanged broker: ``S10`` is ten seconds, ``H2`` two hours.

    A broker may define others (``messageDelayLevel``), so a level is a number and these are
    names for the usual ones.
    """

    S1 = 1
    S5 = 2
    S10 = 3
    S30 = 4
    M1 = 5
    M2 = 6
    M3 = 7
    M4 = 8
    M5 = 9
    M6 = 10
    M7 = 11
    M8 = 12
    M9 = 13
    M10 = 14
    M20 = 15
    M30 = 16
    H1 = 17
    H2 = 18


DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""The broker's ``messageDelayLevel`` when nobody changed it."""

DEFAULT_LEVELS_MS: Final = tuple(
    [1_000 * s for s in (1, 5, 10, 30)]
    + [60_000 * m for m in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30)]
    + [3_600_000 * h for h in (1, 2)]
)
"""The same in milliseconds; level n is at index n - 1."""


class Delay(NamedTuple):
    """One request: how it was asked and the number that stands in the property."""

    kind: DelayKind
    value: int

    @classmethod
    def of(cls, kind: DelayKind, value: int) -> "Delay":
        """Make a request from a caller's number, and refuse numbers that cannot be meant.

        Times are at least 0 and fit a signed 64-bit count of milliseconds, also after seconds
        are multiplied (Java's client lets them overflow into the past). Levels fit 32 bits;
        0 and below mean no delay. Raises TypeError for anything that is not an int, bool
        included, and DelayValueError (a ValueError) for numbers out of range.

        >>> Delay.of(DelayKind.SEC, 10).text
        '10'
        """
        if isinstance(value, bool) or not isinstance(value, int):
            given = f"{type(value).__name__} {value!r}"
            raise TypeError(f"{kind.value} takes an int, not {given}; see also {kind.python_form}")
        if kind is DelayKind.LEVEL:
            if not -INT32_MAX - 1 <= value <= INT32_MAX:
                raise DelayValueError(kind.value, value, "a level is a 32-bit number")
            return cls(kind, value)
        if value < 0:
            what = "a delay" if kind.is_relative else "a time"
            raise DelayValueError(kind.value, value, f"{what} cannot be negative")
        largest = INT64_MAX // 1000 if kind is DelayKind.SEC else INT64_MAX
        if value > largest:
            raise DelayValueError(kind.value, value, f"the largest possible value is {largest}")
        return cls(kind, value)

    @classmethod
    def after(cls, delay: timedelta) -> "Delay":
        """Ask for a time span after arrival at the broker, in whole milliseconds, rounded up.

        >>> Delay.after(timedelta(seconds=1.5))
        Delay(kind=<DelayKind.MS: 'TIMER_DELAY_MS'>, value=1500)
        """
        if not isinstance(delay, timedelta):
            raise TypeError(f"delay takes a timedelta, not {_told(delay)}")
        return cls.of(DelayKind.MS, min(_rounded_up(delay), _LONGEST_MS))

    @classmethod
    def at(cls, moment: datetime) -> "Delay":
        """Ask for an instant, rounded up to a millisecond; the datetime must know its zone.

        >>> Delay.at(datetime(2024, 1, 1, tzinfo=UTC)).value
        1704067200000
        """
        if not isinstance(moment, datetime):
            raise TypeError(f"deliver_at takes a datetime, not {_told(moment)}")
        if moment.utcoffset() is None:
            advice = "the datetime has no time zone: say tzinfo=UTC or .astimezone()"
            raise DelayValueError(DelayKind.DELIVER_AT.value, moment, advice)
        return cls.of(DelayKind.DELIVER_AT, min(_rounded_up(moment - _EPOCH), _LAST_MS))

    @property
    def text(self) -> str:
        """The property's value."""
        return str(self.value)

    def to_timedelta(self) -> timedelta:
        """Give a request in seconds or milliseconds as a span; DelayValueError if it is none."""
        if self.kind is not DelayKind.SEC and self.kind is not DelayKind.MS:
            raise DelayValueError(self.kind.value, self.value, "it is no span of time")
        try:
            return self.value * (_SECOND if self.kind is DelayKind.SEC else _MILLISECOND)
        except OverflowError as error:
            raise DelayValueError(self.kind.value, self.value, "no timedelta is as long") from error

    def to_datetime(self) -> datetime:
        """Give an absolute request as an aware UTC datetime; DelayValueError if it is none."""
        if self.kind.is_relative:
            raise DelayValueError(self.kind.value, self.value, "it is no instant")
        try:
            return _EPOCH + self.value * _MILLISECOND
        except OverflowError as error:
            raise DelayValueError(self.kind.value, self.value, "no datetime is as far") from error

    def due_ms(self, now_ms: int, levels: tuple[int, ...] = DEFAULT_LEVELS_MS) -> int:
        """Give the epoch milliseconds at which a message that arrives now is due.

        The result can lie in the past, and beyond 64 bits: whoever asks compares before storing.

        >>> Delay(DelayKind.SEC, 5).due_ms(10_000), Delay(DelayKind.DELIVER_AT, 7).due_ms(10_000)
        (15000, 7)
        """
        kind, value = self
        if kind is _AT:
            return value
        if kind is _MS:
            return now_ms + value
        if kind is _SEC:
            return now_ms + value * 1000
        if kind is DelayKind.LEVEL:
            return level_due_ms(clamp_level(value, levels), now_ms, levels)
        return value


def looks_like_seconds(epoch_ms: int) -> bool:
    """Whether a caller probably passed epoch seconds where milliseconds are wanted.

    As milliseconds the number is before March 1973, as seconds any time until the year 5138. 0 is
    neither: it says that no time is meant.
    """
    return 0 < epoch_ms < MILLISECONDS_FROM


MILLISECONDS_FROM: Final = 100_000_000_000
"""1973-03-03 UTC in epoch milliseconds: from here on nobody has counted seconds."""

SECONDS_DOUBT: Final = "a time before March 1973 is hardly meant, epoch milliseconds are wanted"
SECONDS_ADVICE: Final = "seconds must be multiplied by 1000"


def refuse_seconds(kind: DelayKind, epoch_ms: int) -> None:
    """Raise DelayValueError for an instant of a sender that looks like epoch seconds.

    A check of senders, whose time units get mixed up. What arrives is taken as it is.
    """
    if not kind.is_relative and looks_like_seconds(epoch_ms):
        raise DelayValueError(kind.value, epoch_ms, f"{SECONDS_DOUBT}: {SECONDS_ADVICE}")


# --- reading -------------------------------------------------------------------------------

# An enum's member is a slow thing to look up, and these are asked for with every timer.
_SEC, _MS, _AT = DelayKind.SEC, DelayKind.MS, DelayKind.DELIVER_AT

_TIMED: Final = tuple((kind.value, kind) for kind in (_SEC, _MS, _AT))

TIMER_REQUEST_PROPERTIES: Final = frozenset(name for name, _ in _TIMED)
"""The properties that a broker with a timer wheel understands."""

LEGACY_DELAY_PROPERTIES: Final = TIMER_REQUEST_PROPERTIES | {Prop.START_DELIVER_TIME}
"""The properties that old programs set with ``putUserProperty``, before setters existed."""

DELAY_PROPERTIES: Final = LEGACY_DELAY_PROPERTIES | {Prop.DELAY}
"""Every property that can ask for a delay."""

TIMER_BOOKKEEPING_PROPERTIES: Final = OWN_TIMER_PROPERTIES | {
    Prop.TIMER_OUT_MS,
    Prop.TIMER_ENQUEUE_MS,
    Prop.TIMER_DEQUEUE_MS,
    Prop.TIMER_ROLL_TIMES,
    Prop.TIMER_DEL_UNIQKEY,
}
"""What only the timer itself may write; the broker strips it from what clients send."""


def parse_number(text: str, property_name: str = "delay") -> int:
    """Read a signed 64-bit decimal the way the broker does: optional sign, digits, nothing else.

    Raises DelayValueError for anything that ``int()`` would forgive (blanks, underscores, other
    scripts' digits), for fractions and exponents, and for numbers beyond 64 bits.

    >>> parse_number("+5")
    5
    """
    if len(text) < _INT64_DIGITS and text.isdecimal() and text.isascii():
        return int(text)  # nearly always
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not (digits.isascii() and digits.isdigit()):
        raise DelayValueError(property_name, text[:64], "not a decimal integer")
    if len(digits) > _INT64_DIGITS:
        digits = digits.lstrip("0") or "0"
    # Counting digits first also keeps int() from its limit on very long texts.
    if len(digits) <= _INT64_DIGITS:
        number = -int(digits) if text[0] == "-" else int(digits)
        if -INT64_MAX - 1 <= number <= INT64_MAX:
            return number
    raise DelayValueError(property_name, text[:64], "does not fit a signed 64-bit number")


def delay_level(properties: Mapping[str, str]) -> int:
    """Give the delay level asked for, 0 when there is none. Raises DelayValueError on junk."""
    text = properties.get(Prop.DELAY)
    if text is None:
        return 0
    level = parse_number(text, Prop.DELAY)
    if not -INT32_MAX - 1 <= level <= INT32_MAX:
        raise DelayValueError(Prop.DELAY, text, "a level is a 32-bit number")
    return level


def effective_delay(properties: Mapping[str, str], *, start_deliver: bool = True) -> Delay | None:
    """Give the one request that counts, by the table at the top; None means deliver at once.

    Only the winner is read: junk in it raises DelayValueError, junk in a loser is not noticed.
    With `start_deliver` False row 5 does not exist, as in the open-source broker. Messages that
    are already in the timer's topic are the caller's business: they are never asked.

    >>> effective_delay({"TIMER_DELAY_SEC": "5", "TIMER_DELAY_MS": "junk"})
    Delay(kind=<DelayKind.SEC: 'TIMER_DELAY_SEC'>, value=5)
    """
    if DELAY_PROPERTIES.isdisjoint(properties):
        return None
    if Prop.DELAY in properties:
        level = delay_level(properties)
        if level > 0:
            return Delay(DelayKind.LEVEL, level)
    if Prop.TIMER_OUT_MS in properties:
        return None
    return requested_time(properties, start_deliver=start_deliver)


def has_delay(properties: Mapping[str, str]) -> bool:
    """Whether any kind of delay is asked for, readable or not; batches must hold none."""
    return not DELAY_PROPERTIES.isdisjoint(properties) and bool(_asked(properties))


def conflicts(properties: Mapping[str, str]) -> list[str]:
    """Name the delay properties of a message that has several, the winner first; mostly empty.

    One of them may say 0. ``TIMER_OUT_MS`` is among them when it silences a request.
    ``__STARTDELIVERTIME`` beside an equal ``TIMER_DELIVER_MS`` is its translation and does not
    count.

    >>> conflicts({"DELAY": "3", "TIMER_DELAY_SEC": "60"})
    ['DELAY', 'TIMER_DELAY_SEC']
    """
    if DELAY_PROPERTIES.isdisjoint(properties):
        return []
    names = [kind.value for kind in DelayKind if kind.value in properties]
    start = properties.get(Prop.START_DELIVER_TIME)
    if start is not None and start == properties.get(Prop.TIMER_DELIVER_MS):
        names.remove(Prop.START_DELIVER_TIME)
    asked = _asked(properties)
    names.sort(key=lambda name: name not in asked)  # the others keep their order
    if Prop.TIMER_OUT_MS in properties and asked:
        names.insert(1 if names[0] == Prop.DELAY else 0, Prop.TIMER_OUT_MS)
    return names if len(names) > 1 else []


def translate_start_deliver(
    properties: dict[str, str],
    mode: Literal["auto", "always", "never"] = "auto",
    *,
    vendor_cloud: bool = False,
) -> dict[str, str]:
    """Give the properties to send: ``__STARTDELIVERTIME`` in words an open-source broker knows.

    A message that asks by that property alone gets a ``TIMER_DELIVER_MS`` of the same value in
    the copy that is returned; the original property stays for vendor brokers and consumers. In
    every other case the same dict comes back, and the caller's dict is never changed. ``auto``
    leaves a vendor's cloud alone, which understands the name itself and may refuse unknown
    timers. What is no number stays as it is.
    """
    text = properties.get(Prop.START_DELIVER_TIME)
    if text is None or mode == "never" or (mode == "auto" and vendor_cloud):
        return properties
    try:
        delay = effective_delay(properties)
    except DelayValueError:
        return properties
    if delay is None or delay.kind is not DelayKind.START_DELIVER:
        return properties
    return {**properties, Prop.TIMER_DELIVER_MS: text}


def requested_time(properties: Mapping[str, str], *, start_deliver: bool) -> Delay | None:
    """Give the request by rows 2 to 5 of the table, for who knows that level and guard are none.

    Raises DelayValueError as `effective_delay` does.
    """
    for name, kind in _TIMED:
        text = properties.get(name)
        if text is not None:
            return Delay(kind, parse_number(text, name))
    text = properties.get(Prop.START_DELIVER_TIME) if start_deliver else None
    if text is not None:
        moment = parse_number(text, Prop.START_DELIVER_TIME)
        return Delay(DelayKind.START_DELIVER, moment) if moment > 0 else None
    return None


def _asked(properties: Mapping[str, str]) -> list[str]:
    """Names of the delay properties that ask for something, in the order in which they win."""
    names = [kind.value for kind in DelayKind if kind.value in properties]
    timed = TIMER_REQUEST_PROPERTIES
    return [name for name in names if name in timed or not _says_none(properties[name])]


def _says_none(text: str) -> bool:
    """Whether a level or a start time is 0 or below; junk does not say so."""
    try:
        return parse_number(text) <= 0
    except DelayValueError:
        return False


# --- the wheel -----------------------------------------------------------------------------


def timer_out_ms(deliver_at_ms: int, precision_ms: int) -> int:
    """Give the wheel slot of a due time, the value of ``TIMER_OUT_MS``.

    A slot is emptied when the clock reaches its *end*, slot + precision. So the slot is the last
    one that ends at or after the due time and holds exactly the times in
    ``(slot, slot + precision]``: nothing leaves early, and a time on a boundary leaves on it.

    >>> [timer_out_ms(due, 1000) for due in (20_500, 20_000, 20_001)]
    [20000, 19000, 20000]
    """
    return (deliver_at_ms - 1) // precision_ms * precision_ms


def release_due_ms(
    properties: Mapping[str, str],
    store_timestamp: int,
    out_ms: int,
    precision_ms: int,
    release_precision_ms: int,
) -> int:
    """Give the exact time at which a record in slot `out_ms` is to be released.

    The slot says the time to within `precision_ms`; the record itself knows the rest: the time
    that our own roll or move noted, or else the request, counted from the record's store time. It
    is rounded up to `release_precision_ms`, and it lies inside the slot: at its end when the record
    cannot tell, because the request is missing or unreadable, because it points outside the slot,
    or because a real broker rolled a relative one and so moved its store time. Only a time that
    was noted may also lie in the slot before: a moved copy stays out of slots with marks of its id.
    """
    slot_end = out_ms + precision_ms
    due = _noted_due_ms(properties, store_timestamp)
    earliest = out_ms - precision_ms if Prop.TIMER_DUE_MS in properties else out_ms
    if due is None or due <= earliest:
        return slot_end
    rounded_up = -(-due // release_precision_ms) * release_precision_ms
    return min(rounded_up, slot_end)


def _noted_due_ms(properties: Mapping[str, str], store_timestamp: int) -> int | None:
    try:
        noted = properties.get(Prop.TIMER_DUE_MS)
        if noted is not None:
            return parse_number(noted, Prop.TIMER_DUE_MS)
        delay = requested_time(properties, start_deliver=True)
    except DelayValueError:
        return None
    if delay is None or (delay.kind.is_relative and Prop.TIMER_ROLL_TIMES in properties):
        return None
    return delay.due_ms(store_timestamp)


# --- the levels ----------------------------------------------------------------------------

_LEVEL_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNKNOWN_LEVEL_MS: Final = 1_000
_FIRST_RETRY_LEVEL: Final = 3


def parse_levels(text: str) -> tuple[int, ...]:
    """Read a ``messageDelayLevel`` setting into milliseconds; level n is at index n - 1.

    Entries are split at one blank and end in s, m, h or d. Raises ConfigError naming the entry,
    where ``ScheduleMessageService.parseDelayLevel`` refuses to load.

    >>> parse_levels("1s 10m 2h")
    (1000, 600000, 7200000)
    """
    return tuple(_level_ms(entry, text) for entry in text.rstrip(" ").split(" "))


def clamp_level(level: int, levels: tuple[int, ...] = DEFAULT_LEVELS_MS) -> int:
    """Give the level that is stored for a wanted one: at most the highest that exists."""
    return min(level, len(levels))


def level_due_ms(
    level: int, store_timestamp: int, levels: tuple[int, ...] = DEFAULT_LEVELS_MS
) -> int:
    """Give the due time of a record stored with this level; an unknown level waits one second.

    Unknown levels occur when the list was shortened while messages waited
    (``ScheduleMessageService.computeDeliverTimestamp``).
    """
    if 1 <= level <= len(levels):
        return store_timestamp + levels[level - 1]
    return store_timestamp + _UNKNOWN_LEVEL_MS


def retry_level(wanted: int, reconsume_times: int) -> int:
    """Give the level at which a failed message waits for its next try.

    `wanted` counts when it is above 0; 0 leaves it to the number of tries so far, which begins
    at ten seconds and grows. Negative values ask for the dead letter topic and are not for here
    (``AbstractSendMessageProcessor.consumerSendMsgBack``).

    >>> retry_level(0, 0), retry_level(0, 15), retry_level(5, 1)
    (3, 18, 5)
    """
    return wanted if wanted > 0 else _FIRST_RETRY_LEVEL + reconsume_times


def _level_ms(entry: str, text: str) -> int:
    unit_ms = _LEVEL_UNITS_MS.get(entry[-1:])
    try:
        if unit_ms is not None:
            return parse_number(entry[:-1]) * unit_ms
    except DelayValueError:
        pass
    raise ConfigError("messageDelayLevel", text, f"{entry!r} is no number followed by s, m, h or d")


def _rounded_up(span: timedelta) -> int:
    whole, rest = divmod(span, _MILLISECOND)
    return whole + bool(rest)


def _told(given: object) -> str:
    """Show what is of a wrong type, and what may have been meant."""
    if isinstance(given, datetime):
        hint = "an instant is given as deliver_at"
    elif isinstance(given, timedelta):
        hint = "a span of time is given as delay"
    elif isinstance(given, int | float):
        hint = f"timedelta(seconds={given}) is a span, set_deliver_time_ms takes epoch milliseconds"
    else:
        hint = "see also set_delay_time_ms and set_deliver_time_ms"
    return f"{type(given).__name__} {given!r}: {hint}"
