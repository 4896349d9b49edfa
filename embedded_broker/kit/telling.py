"""What a test that failed says about its broker, on one screen.

Answers: the text of an expectation that failed, and the section in the report of a failed test.
Must not know: pytest. Read on: ``embedded_broker/kit/recorder.py``, ``plugin.py``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from attrs import define, frozen

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import PendingTimer, Retry
from embedded_broker.clocks.instants import instant
from embedded_broker.errors import BrokerStateError, MessageNotFound
from embedded_broker.kit.bench import Bench, EmbeddedBench
from embedded_broker.remoting.journal import JournalEntry
from rocketmq_py import MessageExt, RequestCode, ResponseCode

ROWS_MAX: Final = 8
LOG_LINES: Final = 15
"""Messages of one kind that a text names; of more it tells the number."""
BODY_MAX: Final = 60
_ROUTINE: Final = frozenset(
    {
        RequestCode.HEART_BEAT,
        RequestCode.PULL_MESSAGE,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    }
)
"""What clients ask all the time, and what explains no failure."""


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
    after: timedelta
    arrivals: Sequence[Arrival]
    trouble: str
    too_early: Arrival | None = None


def told_of_failure(bench: Bench, failed: FailedExpectation) -> str:
    """Tell what was expected, what arrived, and what still waits until when."""
    began, ended = failed.began, failed.began + max(failed.within, failed.after)
    wanted = "nothing" if failed.body is None else _shown(failed.body)
    tags = "" if failed.tags == "*" else f" with tags {failed.tags}"
    end = "now" if began == ended else f"up to {_time(ended)} ({_signed(ended - began)})"
    lines = [_headline(failed, wanted, tags), f"expected       {wanted} from {_time(began)} {end}"]
    if failed.after and failed.body is not None:
        lines.append(f"               and not before {_time(began + failed.after)}")
    lines += _rows("arrived", [_arrival(one) for one in failed.arrivals])
    waiting = bench.waiting(failed.topic)
    if waiting is None:
        lines.append(f"still waiting  unknown: {bench.name} cannot be asked")
    else:
        now = bench.now()
        lines += _rows("still waiting", [_timer(one, now) for one in waiting], first=True)
        lines += [f"hint           {one}" for one in _hints(bench, failed, waiting, ended)]
    if failed.trouble:
        lines += _rows("in the way", failed.trouble.splitlines()[:ROWS_MAX])
    lines.append(f"time now       {_time(bench.now())}")
    return "\n".join(lines)


def _headline(failed: FailedExpectation, wanted: str, tags: str) -> str:
    where = f"in topic {failed.topic}{tags}"
    if failed.body is None:
        came = any(not one.taken for one in failed.arrivals)
        return f"a message arrived {where}" if came else f"clients were not idle {where}"
    if failed.too_early is not None:
        when = instant(failed.too_early.message.store_timestamp)
        return f"{wanted} arrived too early {where}: {_signed(when - failed.began)} after the look"
    span = f"within {plain(failed.within)}" if failed.within else "without moving time"
    return f"{wanted} did not arrive {where} {span}"


def _hints(
    bench: Bench, failed: FailedExpectation, waiting: Iterable[PendingTimer], ended: datetime
) -> Iterator[str]:
    """Say what may be wrong with the expectation."""
    if failed.body is None or callable(failed.body) or failed.too_early is not None:
        return
    body = failed.body.encode() if isinstance(failed.body, str) else failed.body
    later = next((one for one in waiting if _body(one) == body), None)
    if later is not None:
        enough = repr(later.due_at - failed.began).removeprefix("datetime.")
        yield f"it is due {plain(later.due_at - ended)} later: within={enough} waits for it"
    if any(one.taken and one.message.body == body for one in failed.arrivals):
        yield "it arrived once, and an earlier expectation took it"
    stored = bench.stored(failed.topic) or ()
    if any(one.body == body for one in stored) and not any(
        one.message.body == body for one in failed.arrivals
    ):
        tags = next(one.tags for one in stored if one.body == body)
        yield f"it is in the topic, but was not delivered: its tags are {tags}"
    for name in bench.topic_names() or ():
        if name != failed.topic and any(one.body == body for one in bench.stored(name) or ()):
            yield f"it arrived in topic {name}"


def _rows(title: str, rows: Sequence[str], *, first: bool = False) -> list[str]:
    """Lay rows out beside their title; of many only the last ones, or the first."""
    if not rows:
        return [f"{title:<14} nothing"]
    left_out = len(rows) - ROWS_MAX
    shown = list(rows[:ROWS_MAX] if first else rows[-ROWS_MAX:])
    if left_out > 0:
        shown.insert(ROWS_MAX if first else 0, f"{left_out} more{'' if first else ', then'}")
    return [f"{'' if at else title:<14} {row}" for at, row in enumerate(shown)]


def _arrival(one: Arrival) -> str:
    notes = []
    if one.message.tags:
        notes.append(f"tags {one.message.tags}")
    if one.again:
        notes.append("a duplicate")
    if one.taken:
        notes.append("expected before")
    note = f"  ({', '.join(notes)})" if notes else ""
    when = instant(one.message.store_timestamp)
    return f"{_time(when)}  {_shown(one.message.body)}{note}"


def _timer(one: PendingTimer, now: datetime) -> str:
    where = f"{_shown(_body(one))}  for {one.topic}"
    return f"until {_time(one.due_at)} (in {plain(one.due_at - now)})  {where}"


def _body(one: PendingTimer) -> bytes:
    try:
        return one.body
    except (MessageNotFound, BrokerStateError):
        return b"?"


# -- the section of a failed test ---------------------------------------------------------------


def told_of_bench(bench: Bench, *, repeat: str) -> str:
    """Tell the state of a broker for the report of a failed test."""
    lines = [f"broker         {bench.name} at {bench.namesrv_addr}"]
    if isinstance(bench, EmbeddedBench):
        for broker in bench.brokers:
            lines += _of_broker(broker, several=len(bench.brokers) > 1)
        lines += _journal(bench.broker)
    if said := bench.log_tail(LOG_LINES):
        lines += ["its servers said:", *(f"  {line}" for line in said)]
    lines.append(f"repeat with    {repeat}")
    return "\n".join(lines)


def _of_broker(broker: EmbeddedBroker, *, several: bool) -> list[str]:
    if not broker.is_running:
        return [f"               {broker.broker_name} is down"]
    now = broker.clock.now()
    lines = [f"               {broker.broker_name}"] if several else []
    lines.append(f"time           {_time(now)}, seed {broker.seed}")
    lines += _rows("topics", [f"{one} {broker.topics[one].count()}" for one in broker.topics])
    timers = broker.timers.pending(limit=ROWS_MAX)
    rows = [_timer(one, now) for one in timers]
    rows += [""] * (broker.timers.count() - len(timers))  # counted, but not read
    lines += _rows("still waiting", rows, first=True)
    lines += _rows("consumers", [_group(broker, name) for name in broker.groups])
    for name in broker.groups:
        retries = broker.groups[name].retries()
        if retries:
            lines += _rows("retries", [f"{name}: {_retry(one)}" for one in retries])
        dead = broker.groups[name].dead_letters()
        if dead:
            lines += _rows("dead letters", [f"{name}: {_shown(one.body)}" for one in dead])
    return lines


def _group(broker: EmbeddedBroker, name: str) -> str:
    group = broker.groups[name]
    topics = ", ".join(one for one in group.topics if not one.startswith("%")) or "no topic"
    return f"{name} reads {topics}: {len(group.members)} connected, lag {group.lag()}"


def _retry(one: Retry) -> str:
    when = f"again at {_time(one.due_at)}" if one.waiting else "again now"
    return f"{_shown(one.body)} {when} (failed {one.attempts} times)"


def _journal(broker: EmbeddedBroker) -> list[str]:
    """Give the newest requests that say something, oldest first."""
    told: list[str] = []
    for entry in reversed(broker.journal.requests()):
        if entry.code not in _ROUTINE:
            told.append(_entry(entry))
        if len(told) == ROWS_MAX:
            break
    return _rows("last requests", told[::-1])


def _entry(entry: JournalEntry) -> str:
    what = " ".join(one for one in (_code(RequestCode, entry.code), entry.topic) if one)
    if entry.group is not None:
        what += f" of {entry.group}"
    if entry.response_code is None:
        return f"{_time(entry.time)}  {what}: {'one-way' if entry.oneway else 'no answer'}"
    remark = f" ({entry.remark})" if entry.remark and entry.response_code else ""
    return f"{_time(entry.time)}  {what}: {_code(ResponseCode, entry.response_code)}{remark}"


def _code(kind: type[RequestCode | ResponseCode], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)


# -- words --------------------------------------------------------------------------------------


def _shown(body: object) -> str:
    if callable(body):
        return f"a message for which {getattr(body, '__qualname__', body)} is true"
    text = repr(body)
    return text if len(text) <= BODY_MAX else f"{text[: BODY_MAX - 1]}…"


def _time(when: datetime) -> str:
    """Give a time without what is always the same."""
    text = when.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
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
