"""Text of a failed expectation, on one screen.

Answers: the text of an expectation that failed. Must not know: pytest. Read on:
``embedded_broker/kit/recorder.py``, and ``report.py`` for the section about the broker.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import define, frozen

from embedded_broker.api.views import PendingTimer
from embedded_broker.clocks.instants import instant
from embedded_broker.errors import BrokerStateError, MessageNotFound
from embedded_broker.kit.fixture_broker import FixtureBroker
from rocketmq_py import MessageExt

ROWS_MAX: Final = 8
"""Messages of one kind that a text names; of more it tells the number."""
BODY_MAX: Final = 60
AROUND: Final = (10, 20)
"""How many bytes are shown before and after the place where two bodies begin to differ."""
UNITS: Final = (
    ("days", timedelta(days=1)),
    ("hours", timedelta(hours=1)),
    ("minutes", timedelta(minutes=1)),
    ("seconds", timedelta(seconds=1)),
)


@define(eq=False)
class Arrival:
    """One delivery: the message, whether its id had come before, whether a test has expected it."""

    message: MessageExt
    again: bool = False
    taken: bool = False


@frozen(kw_only=True)
class FailedExpectation:
    """What a recorder expected in vain. ``body`` None: it expected nothing."""

    topic: str
    tags: str
    body: bytes | str | Callable[[MessageExt], object] | None
    began: datetime
    within: timedelta
    earliest: datetime | None
    arrivals: Sequence[Arrival]
    trouble: str
    too_early: Arrival | None = None


def failure_text(fixture: FixtureBroker, failed: FailedExpectation) -> str:
    """Tell what was expected, what arrived, and what still waits until when."""
    began, ended = failed.began, failed.began + failed.within
    wanted = "nothing" if failed.body is None else shown(failed.body)
    tags = "" if failed.tags == "*" else f" with tags {failed.tags}"
    end = "up to " + time_of(ended, beside=began) + f" ({_signed(ended - began)})"
    lines = [
        _headline(failed, wanted, tags),
        f"expected       {wanted}",
        f"               from {time_of(began)} {'now' if began == ended else end}",
    ]
    if failed.earliest is not None:
        lines.append(f"               and not before {time_of(failed.earliest)}")
    lines += rows("arrived", [_arrival(one, failed) for one in failed.arrivals])
    waiting = fixture.waiting(failed.topic)
    if waiting is None:
        lines.append(f"still waiting  unknown: {fixture.why_unknown()}")
    else:
        now = fixture.now()
        lines += rows("still waiting", [waiting_row(one, now) for one in waiting], first=True)
        lines += [f"hint           {one}" for one in _hints(fixture, failed, waiting, ended)]
    if failed.trouble:
        lines += rows("in the way", failed.trouble.splitlines()[:ROWS_MAX])
    return "\n".join(lines)


def _headline(failed: FailedExpectation, wanted: str, tags: str) -> str:
    where = f"in topic {failed.topic}{tags}"
    if failed.body is None:
        came = _first_unexpected(failed)
        if came is None:
            return f"not everybody was idle {where}"
        return f"{shown(came.message.body)} arrived {where}, where nothing was expected"
    if failed.too_early is not None:
        when = instant(failed.too_early.message.store_timestamp)
        return f"{wanted} arrived too early {where}: {_signed(when - failed.began)} after the look"
    span = f"within {plain(failed.within)}" if failed.within else "without moving time"
    return f"{wanted} did not arrive {where} {span}"


def _first_unexpected(failed: FailedExpectation) -> Arrival | None:
    return next((one for one in failed.arrivals if not one.taken), None)


# -- what may be wrong ----------------------------------------------------------------------------


def _hints(
    fixture: FixtureBroker,
    failed: FailedExpectation,
    waiting: Sequence[PendingTimer],
    ended: datetime,
) -> Iterator[str]:
    """Say what may be wrong with the expectation, or with the program."""
    yield from (wrong_clock := list(clock_hint(fixture)))
    if failed.body is None:
        yield from _why_it_came(failed)
    elif failed.too_early is None:
        if any(lost := fixture.lost()):
            yield f"the crash lost {losses(*lost)} that were not synced"
        if not callable(failed.body):
            text = failed.body.encode() if isinstance(failed.body, str) else failed.body
            yield from _where_it_is(fixture, failed, text, [] if wrong_clock else waiting, ended)


def clock_hint(fixture: FixtureBroker) -> Iterator[str]:
    """Say that a program computes its deliver times by the wall clock, where one does."""
    found = fixture.misread_clock()
    if found is None:
        return
    ahead = found.deliver_at - found.broker_at
    side = "after" if ahead > timedelta(0) else "before"
    told = (
        "your program reads the wall clock: give it the broker's,",
        f"such as now=rocketmq_clock.now. {_roughly(found.deliver_at - found.sent_at)} after the",
        f"wall clock a message is due, and {_roughly(abs(ahead))} {side} the broker's",
    )
    yield "\n               ".join(told)


def _roughly(span: timedelta) -> str:
    seconds = timedelta(seconds=round(span.total_seconds()))
    return plain(timedelta(days=span.days) if span.days else seconds)


def _why_it_came(failed: FailedExpectation) -> Iterator[str]:
    came = _first_unexpected(failed)
    if came is None:
        return
    if came.again:
        yield "it was delivered again: same message, same id"
    elif any(one.taken and one.message.body == came.message.body for one in failed.arrivals):
        yield "the same body came before under another id: it was sent twice"


def _where_it_is(
    fixture: FixtureBroker,
    failed: FailedExpectation,
    body: bytes,
    waiting: Sequence[PendingTimer],
    ended: datetime,
) -> Iterator[str]:
    later = next((one for one in waiting if _body(one) == body), None)
    if later is not None:
        enough = _as_code(later.due_at - failed.began)
        yield f"it is due {plain(later.due_at - ended)} later: within={enough} waits for it"
    arrived = {one.message.body for one in failed.arrivals}
    if any(one.taken and one.message.body == body for one in failed.arrivals):
        yield "it arrived once, and an earlier expectation took it"
    stored = fixture.stored(failed.topic) or ()
    tags = next((one.tags for one in stored if one.body == body), "")
    if body not in arrived and any(one.body == body for one in stored):
        yield f"it is in the topic, but was not delivered: its tags are {tags}"
    elsewhere = [
        name
        for name in fixture.topic_names() or ()
        if name != failed.topic and any(one.body == body for one in fixture.stored(name) or ())
    ]
    yield from (f"it arrived in topic {name}" for name in elsewhere)
    if later is None and body not in arrived and not elsewhere:
        untaken = [one.message.body for one in failed.arrivals if not one.taken]
        yield from _alike(body, "what came", untaken) or _alike(
            body, "what waits", [_body(one) for one in waiting]
        )


def _alike(body: bytes, what: str, others: Sequence[bytes]) -> list[str]:
    """Show where a body begins to differ from the one that is most like it."""
    at, other = max(((_same_start(body, one), one) for one in others), default=(0, b""))
    if at * 2 < len(body):
        return []
    begin, end = max(0, at - AROUND[0]), at + AROUND[1]
    told = (
        f"{what} is alike up to byte {at}, and then it has",
        f"{other[begin:end]!r} where",
        f"{body[begin:end]!r} was expected",
    )
    return ["\n               ".join(told)]


def _same_start(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def losses(timers: int, messages: int) -> str:
    """Say what was lost in a crash."""
    return f"{_counted(timers, 'timer')} and {_counted(messages, 'message')}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- rows -----------------------------------------------------------------------------------------


def rows(title: str, given: Sequence[str], *, first: bool = False) -> list[str]:
    """Lay rows out beside their title; of many only the last ones, or the first."""
    if not given:
        return [f"{title:<14} nothing"]
    left_out = len(given) - ROWS_MAX
    chosen = list(given[:ROWS_MAX] if first else given[-ROWS_MAX:])
    if left_out > 0:
        chosen.insert(ROWS_MAX if first else 0, f"{left_out} more{'' if first else ', then'}")
    return [f"{'' if at else title:<14} {row}" for at, row in enumerate(chosen)]


def _arrival(one: Arrival, failed: FailedExpectation) -> str:
    notes = []
    if one.message.tags:
        notes.append(f"tags {one.message.tags}")
    if one.again:
        notes.append("a duplicate")
    if one.taken:
        notes.append("expected before")
    elif failed.body is None:
        notes.append("not expected")
    note = f"  ({', '.join(notes)})" if notes else ""
    when = instant(one.message.store_timestamp)
    return f"{time_of(when)}  {shown(one.message.body)}{note}"


def waiting_row(one: PendingTimer, now: datetime) -> str:
    """Tell what waits, and until when."""
    return f"until {time_of(one.due_at)} (in {plain(one.due_at - now)})  {shown(_body(one))}"


def _body(one: PendingTimer) -> bytes:
    try:
        return one.body
    except (MessageNotFound, BrokerStateError):
        return b"?"


# -- words --------------------------------------------------------------------------------------


def shown(body: object) -> str:
    """Give a body, or what is said of the message; cut when it is long."""
    if callable(body):
        return f"a message for which {getattr(body, '__qualname__', body)} is true"
    text = repr(body)
    return text if len(text) <= BODY_MAX else f"{text[: BODY_MAX - 1]}…"


def time_of(when: datetime, *, beside: datetime | None = None) -> str:
    """Give a time without what is always the same, such as the date of one that stands beside."""
    same_day = beside is not None and when.date() == beside.date()
    text = when.strftime("%H:%M:%S.%f" if same_day else "%Y-%m-%d %H:%M:%S.%f")[:-3]
    return text.removesuffix(".000")


def plain(span: timedelta) -> str:
    """Give a span as people say it: ``30 min``, ``2 d 3 h``."""
    ms = round(span / timedelta(milliseconds=1))
    if ms < 0:
        return f"-{plain(-span)}"
    parts = []
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        count, ms = divmod(ms, size)
        if count:
            parts.append(f"{count} {name}")
    if ms or not parts:
        parts.append(f"{ms / 1000:g} s")
    return " ".join(parts)


def _signed(span: timedelta) -> str:
    return f"+{plain(span)}" if span >= timedelta(0) else plain(span)


def _as_code(span: timedelta) -> str:
    """Give a span as a test writes it: ``timedelta(minutes=30)``."""
    parts = []
    for name, unit in UNITS[:-1]:
        count, span = divmod(span, unit)
        if count:
            parts.append(f"{name}={count}")
    if span or not parts:
        parts.append(f"seconds={span.total_seconds():g}")
    return f"timedelta({', '.join(parts)})"
