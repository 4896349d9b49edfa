"""The tables of `rocketmq-py timers` fit terminals of any kind."""

from __future__ import annotations

import io

from rich.console import Console

from embedded_broker.cli.timers_view import show
from embedded_broker.inspector.columns import Whereabouts
from embedded_broker.inspector.integrity import Checked
from embedded_broker.inspector.reader import Finding, Severity
from embedded_broker.inspector.report import Bucket, Listed, Report, StageLine, TopicLine
from embedded_broker.timer.listing import Pending
from rocketmq_py.protocol.message_codec import RecordHead


class AsciiStream(io.StringIO):
    encoding = "ascii"


def shown(report: Report, stream: io.StringIO | None = None) -> str:
    stream = stream if stream is not None else io.StringIO()
    show(report, utc=True, console=Console(file=stream, width=100, highlight=False))
    return stream.getvalue()


def report(**fields: object) -> Report:
    values: dict[str, object] = {
        "kind": "store",
        "source": "DIR",
        "now_ms": 1_700_000_000_000,
        "total": 3,
        "selected": 3,
        **fields,
    }
    return Report(**values)  # type: ignore[arg-type]


BARS = (
    Bucket(from_ms=1_700_000_000_000, to_ms=1_700_000_090_000, count=8, by_topic={"A": 8}),
    Bucket(from_ms=1_700_000_090_000, to_ms=1_700_000_180_000, count=1, by_topic={"A": 1}),
    Bucket(from_ms=1_700_000_180_000, to_ms=1_700_000_270_000, count=0, by_topic={}),
)


def test_the_longest_bar_is_full_and_the_smallest_is_seen() -> None:
    lines = shown(report(buckets=BARS)).splitlines()
    assert "due times, 1 min 30 s for each bar" in lines[2]
    assert lines[4].split()[-1] == "█" * 40
    assert lines[5].split()[-1] == "█" * 5
    assert lines[6].split()[-1] == "0"


def test_a_plain_terminal_gets_plain_characters() -> None:
    text = shown(report(buckets=BARS), AsciiStream())
    assert "#" * 40 in text
    assert text.isascii()


def test_names_with_brackets_are_shown_as_they_are() -> None:
    pending = Pending(
        due_ms=1_700_000_000_123,
        root=0,
        topic="[red]T",
        accepted_ms=0,
        stored=RecordHead(
            b"T", 0, 0, bytes(8), 1, b"UNIQ_KEY\x01[b]ID\x02TIMER_ROLL_TIMES\x012\x02"
        ),
        reader=lambda _: None,
    )
    line = Listed(pending, Whereabouts.HOP, level=0, offset=0, size=1)
    text = shown(
        report(
            listed=(line,),
            topics=(TopicLine(topic="[red]T", count=3),),
            warnings=("[bold]careful",),
        )
    )
    assert text.count("[red]T") == 2
    assert "[bold]careful" in text
    assert "2023-11-14 22:13:20.123Z" in text
    assert "[b]ID" in text
    assert "hop, 2 rolls" in text


def test_the_sums_of_a_broker_say_what_they_count() -> None:
    lines = (TopicLine(topic="Orders", count=1),)
    text = shown(report(kind="broker", total=2, timers=1, in_levels=1, selected=2, topics=lines))
    assert "2 waiting: 1 timer, 1 in delay levels\n" in text
    assert "timers by topic" in text
    assert "of topic" not in text


def test_a_broker_that_is_asked_for_a_topic_tells_its_timers() -> None:
    stages = (StageLine("delay level 18", 1, "messages"),)
    text = shown(
        report(
            kind="broker", total=2, timers=2, in_levels=0, selected=0, topic="[b]N", stages=stages
        )
    )
    assert "2 waiting: 2 timers, 0 in delay levels\nof topic [b]N: 0 timers\n" in text
    assert "selected" not in text
    assert "pipeline of all topics" in text
    assert "pipeline of all topics" in shown(report(topic="A", stages=stages))
    assert "of all topics" not in shown(report(stages=stages))


def test_sums_that_are_not_known_are_unknown() -> None:
    text = shown(report(kind="broker", total=None, timers=3, in_levels=None, selected=None))
    assert "unknown waiting: 3 timers, unknown in delay levels" in text


def test_findings_and_hidden_ones_are_listed() -> None:
    checked = Checked(findings=[Finding(Severity.DAMAGE, "timerlog", 52, "broken chain: x")])
    checked.hidden["broken chain"] = 7
    text = shown(report(integrity=checked))
    assert "files damaged" in text
    assert "damage timerlog at 52: broken chain: x" in text
    assert "and 7 more: broken chain" in text
