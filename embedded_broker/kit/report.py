"""Report section of a failed test about its broker.

Answers: the section with topics, timers, consumers and the last requests, and how much of what the
clients logged is shown. Must not know: pytest. Read on: ``failure_text.py`` for the text of an
expectation, ``plugin.py``.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from embedded_broker.api.broker import EmbeddedBroker
from embedded_broker.api.views import Retry
from embedded_broker.kit.failure_text import (
    ROWS_MAX,
    clock_hint,
    losses,
    rows,
    shown,
    time_of,
    waiting_row,
)
from embedded_broker.kit.fixture_broker import EmbeddedFixtureBroker, FixtureBroker
from embedded_broker.remoting.journal import JournalEntry
from rocketmq_py import RequestCode, ResponseCode

SERVER_LINES: Final = 15
LOG_COLUMNS: Final = 79
"""One row of a screen, on which the place in our code has room."""
LOG_COLUMNS_MAX: Final = 4 * 80 - 1
"""A warning is shown whole, for what to do stands in it; of one that is longer the middle is cut:
the reason stands at the end.
"""
_OURS: Final = re.compile(r"\b(?:rocketmq_py|embedded_broker)\.[\w.]+:")
_PLACE: Final = re.compile(r"(?<=WARNING  )[\w.]+:\w+\.py:\d+ ")
_BEGINS: Final = re.compile(r"[A-Z]{4,} ")
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


def told_of_fixture(fixture: FixtureBroker, *, repeat: str) -> str:
    """Tell the state of a broker for the report of a failed test."""
    lines = [
        f"broker         {fixture.name} at {fixture.namesrv_addr}, time {time_of(fixture.now())}",
    ]
    if isinstance(fixture, EmbeddedFixtureBroker):
        for broker in fixture.brokers:
            lines += _of_broker(broker, several=len(fixture.brokers) > 1)
        lines += [f"hint           {one}" for one in clock_hint(fixture)]
        lines += [f"note           {one}" for one in fixture.disagreements()]
        lines += _journal(fixture.broker, fixture.now())
    if said := fixture.log_tail(SERVER_LINES):
        lines += ["its servers said:", *(f"  {line}" for line in said)]
    lines.append(f"repeat with    {repeat}")
    return "\n".join(lines)


def _of_broker(broker: EmbeddedBroker, *, several: bool) -> list[str]:
    if not broker.is_running:
        return [f"               {broker.broker_name} is down"]
    now = broker.clock.now()
    lines = [f"               {broker.broker_name}"] if several else []
    if not broker.recovery.clean:
        lost = losses(broker.recovery.timers_lost, broker.recovery.messages_lost)
        lines.append(f"recovered      after a crash: {lost} lost")
    counts = {one: broker.topics[one].count() for one in broker.topics}
    topics = [f"{one} {n}" for one, n in counts.items() if n or one[0] != "%"]
    lines += rows("topics", [", ".join(topics[at : at + 4]) for at in range(0, len(topics), 4)])
    timers = broker.timers.pending(limit=ROWS_MAX)
    told = [f"{waiting_row(one, now)}  for {one.topic}" for one in timers]
    told += [""] * (broker.timers.count() - len(timers))  # counted, but not read
    lines += rows("still waiting", told, first=True)
    lines += rows("consumers", [_group(broker, name) for name in broker.groups])
    for name in broker.groups:
        retries = broker.groups[name].retries()
        if retries:
            lines += rows("retries", [f"{name}: {_retry(one)}" for one in retries])
        dead = broker.groups[name].dead_letters()
        if dead:
            lines += rows("dead letters", [f"{name}: {shown(one.body)}" for one in dead])
    return lines


def _group(broker: EmbeddedBroker, name: str) -> str:
    group = broker.groups[name]
    topics = ", ".join(one for one in group.topics if not one.startswith("%")) or "no topic"
    return f"{name} reads {topics}: {len(group.members)} connected, lag {group.lag()}"


def _retry(one: Retry) -> str:
    when = f"again at {time_of(one.due_at)}" if one.waiting else "again now"
    return f"{shown(one.body)} {when} (failed {one.attempts} times)"


def _journal(broker: EmbeddedBroker, now: datetime) -> list[str]:
    """Give the newest requests that say something, oldest first."""
    told: list[tuple[str, int]] = []
    for entry in reversed(broker.journal.requests()):
        if entry.code in _ROUTINE:
            continue
        text = _entry(entry, now)
        if told and told[-1][0] == text:
            told[-1] = (text, told[-1][1] + 1)
        elif len(told) == ROWS_MAX:
            break
        else:
            told.append((text, 1))
    return rows(
        "last requests",
        [text if count == 1 else f"{text}, {count} times" for text, count in told[::-1]],
    )


def _entry(entry: JournalEntry, now: datetime) -> str:
    what = " ".join(one for one in (_code(RequestCode, entry.code), entry.topic) if one)
    if entry.group is not None:
        what += f" of {entry.group}"
    what = f"{time_of(entry.time, beside=now)}  {what}"
    if entry.response_code is None:
        return f"{what}: {'one-way' if entry.oneway else 'no answer'}"
    remark = f" ({entry.remark})" if entry.remark and entry.response_code else ""
    return f"{what}: {_code(ResponseCode, entry.response_code)}{remark}"


def _code(kind: type[RequestCode | ResponseCode], number: int) -> str:
    try:
        return kind(number).name
    except ValueError:
        return str(number)


# -- what was logged ------------------------------------------------------------------------------


def short_log(text: str) -> str:
    """Let each logger of our clients speak once.

    While a broker is down some say the same a hundred times a second. Of warnings that fill the
    screen the middle is cut; lines of other programs stay as they are.
    """
    return "\n".join(_short_lines(text.splitlines()))


def _short_lines(lines: list[str]) -> Iterator[str]:
    heard: set[str] = set()
    left_out, cut, leave_out = 0, 0, False
    for line in lines:
        if found := _OURS.search(line):
            leave_out = found[0] in heard
            left_out += leave_out
            heard.add(found[0])
            if line.startswith("WARNING") and not leave_out:
                line = _without_place(line)  # noqa: PLW2901
                if len(line) > LOG_COLUMNS_MAX:
                    line = _without_middle(line)  # noqa: PLW2901
                    cut += 1
        elif _BEGINS.match(line):  # what does not begin like this belongs to the line before
            leave_out = False
        if not leave_out:
            yield line
    if left_out or cut:
        more = [f"{left_out} more lines of the same loggers"] if left_out else []
        more += [f"the middle of {cut} long lines"] if cut else []
        yield f"… {', '.join(more)} (pytest -v shows them all)"


def _without_place(line: str) -> str:
    """Leave out the place in our code, which says the least, of what is longer than a row."""
    return line if len(line) <= LOG_COLUMNS else _PLACE.sub("", line, count=1)


def _without_middle(line: str) -> str:
    half = LOG_COLUMNS_MAX // 2
    return f"{line[:half]}…{line[-half:]}"
