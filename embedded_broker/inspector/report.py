"""Report of the inspector about a store or a broker, as values and as one JSON document.

Answers: the histogram of due times, the counts by topic, how far each stage of the pipeline is,
how full the wheel is, what the check point says. Must not know: terminals, files' bytes
(`reader.py`, `pending.py`), how a broker is asked (`cli/`). Times are epoch milliseconds.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from attrs import asdict, evolve, field, fields, frozen

from embedded_broker.inspector.columns import PendingTimers, Whereabouts
from embedded_broker.inspector.integrity import Checked, check
from embedded_broker.inspector.pending import find_pending
from embedded_broker.inspector.reader import StoreFiles
from embedded_broker.timer.listing import NEVER_MS, Pending, Wanted
from rocketmq_py.protocol.bodies.timers import DelayOffsets, TimerCheckpoint, TimerCounts

_WIDTHS_S: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800, 1_209_600, 2_592_000, 7_776_000, 31_536_000),
)
_TOPICS_IN_BUCKETS: Final = 5
OTHER_TOPICS: Final = "other topics"


@frozen(kw_only=True)
class Bucket:
    """Waiting messages due in [from_ms, to_ms); `by_topic` has the busiest topics and the rest."""

    from_ms: int
    to_ms: int
    count: int
    by_topic: Mapping[str, int]


@frozen(kw_only=True)
class TopicLine:
    """One topic's waiting messages; the times are None where only a count is known."""

    topic: str
    count: int
    overdue: int | None = None
    next_due_ms: int | None = None
    last_due_ms: int | None = None


@frozen
class StageLine:
    """How much waits for one stage of the pipeline and how far behind it is; None: not known."""

    stage: str
    waiting: int | None
    unit: str
    lag_ms: int | None = None
    remark: str = ""
    at_ms: int | None = None
    """A time that belongs at the end of the remark; who shows it chooses the zone."""


@frozen
class Listed:
    """One waiting message, and where the files have it.

    `level` is 0 unless it waits at one, `size` is that of the whole record.
    """

    pending: Pending
    where: Whereabouts
    level: int
    offset: int
    size: int


@frozen(kw_only=True)
class WheelLine:
    """How full wheel and timer log are."""

    precision_ms: int
    slots_total: int
    slots_waiting: int
    records_waiting: int
    first_slot_ms: int | None
    last_slot_ms: int | None
    fullest_slot_ms: int | None
    fullest_slot_records: int
    log_bytes: int
    log_files: int


@frozen(kw_only=True)
class Report:
    """One look at a store directory (`kind` store) or at a running broker (`kind` broker).

    `total` counts what waits; with a topic or a time limit `selected` is what passed it, and
    `buckets`, `topics` and `listed` are of those. What the source cannot tell is None or empty.
    A broker tells two sums of its `total`: `timers`, by topic, and what waits `in_levels`, whose
    topics it does not tell: with a topic only timers are selected.
    """

    kind: str
    source: str
    now_ms: int
    total: int | None
    selected: int | None
    topic: str | None = None
    """The one that was asked for; stages, wheel and files are of all."""
    timers: int | None = None
    in_levels: int | None = None
    overdue: int | None = None
    oldest_overdue: Listed | None = None
    recalled: int | None = None
    already_released: int | None = None
    buckets: Sequence[Bucket] = ()
    topics: Sequence[TopicLine] = ()
    listed: Sequence[Listed] = ()
    stages: Sequence[StageLine] = ()
    wheel: WheelLine | None = None
    checkpoint: TimerCheckpoint | None = None
    clean: bool | None = None
    integrity: Checked | None = None
    runtime: Mapping[str, str] = field(factory=dict)
    warnings: Sequence[str] = ()


# --- a store ---------------------------------------------------------------------------------


def report_of_store(
    files: StoreFiles,
    *,
    now_ms: int,
    topic: str | None = None,
    before_ms: int | None = None,
    limit: int = 0,
    buckets: int = 24,
    verify: bool = True,
) -> Report:
    """Look at an opened store.

    `limit` messages are listed in due order, at most `buckets` (from 1) bars are made; without
    `verify` the files are not checked against each other.
    """
    pending = find_pending(files)
    wanted = Wanted(
        topic=topic, before_ms=NEVER_MS if before_ms is None else before_ms, limit=limit
    )
    rows = list(pending.rows(wanted))
    overdue = sum(pending.due_ms[row] <= now_ms for row in rows)
    return Report(
        kind="store",
        source=str(files.root),
        now_ms=now_ms,
        total=len(pending),
        selected=len(rows),
        topic=topic,
        overdue=overdue,
        oldest_overdue=next(iter(_listed(pending, evolve(wanted, limit=1))), None)
        if overdue
        else None,
        recalled=pending.recalled,
        already_released=pending.released,
        buckets=histogram(pending, rows, buckets),
        topics=_topic_lines(pending, rows, now_ms),
        listed=_listed(pending, wanted),
        stages=_stages_of_store(files, pending, now_ms),
        wheel=_wheel_line(files),
        checkpoint=files.checkpoint,
        clean=files.clean,
        integrity=check(files, pending) if verify else None,
        warnings=tuple(_warnings(files)),
    )


def _listed(pending: PendingTimers, wanted: Wanted) -> tuple[Listed, ...]:
    found = ((one, one.read()) for one in pending.page(wanted))
    return tuple(
        Listed(
            one,
            where := pending.whereabouts(one),
            record.queue_id + 1 if where is Whereabouts.LEVEL else 0,
            record.commit_log_offset,
            record.size,
        )
        for one, record in found
        if record is not None
    )


def histogram(pending: PendingTimers, rows: Sequence[int], bars: int) -> tuple[Bucket, ...]:
    """Count rows, given in due order, in at most `bars` steps of equal, readable width."""
    if not rows:
        return ()
    first_ms, last_ms = pending.due_ms[rows[0]], pending.due_ms[rows[-1]]
    width_ms, begin_ms = _steps(first_ms, last_ms, bars)
    named = _busiest(pending, rows)
    bar_count = (last_ms - begin_ms) // width_ms + 1
    counts: list[Counter[str]] = [Counter() for _ in range(bar_count)]
    for row in rows:
        bar = counts[(pending.due_ms[row] - begin_ms) // width_ms]
        bar[named.get(pending.topic[row], OTHER_TOPICS)] += 1
    return tuple(
        Bucket(
            from_ms=begin_ms + number * width_ms,
            to_ms=begin_ms + (number + 1) * width_ms,
            count=bar.total(),
            by_topic=dict(bar),
        )
        for number, bar in enumerate(counts)
    )


def _steps(first_ms: int, last_ms: int, bars: int) -> tuple[int, int]:
    """Give the width of a bar and the begin of the first, both on readable times of UTC."""
    for width_s in _WIDTHS_S:
        width_ms = width_s * 1000
        begin_ms = first_ms - first_ms % width_ms
        if (last_ms - begin_ms) // width_ms < max(1, bars):
            return width_ms, begin_ms
    width_ms = (last_ms - first_ms) // max(1, bars) + 1
    return width_ms, first_ms


def _busiest(pending: PendingTimers, rows: Sequence[int]) -> dict[int, str]:
    """Name the topics that get a colour of their own, by number."""
    counts = Counter(pending.topic[row] for row in rows)
    ranked = sorted(counts, key=lambda number: (-counts[number], pending.topics[number]))
    kept = ranked if len(ranked) <= _TOPICS_IN_BUCKETS + 1 else ranked[:_TOPICS_IN_BUCKETS]
    return {number: pending.topics[number] for number in kept}


def _topic_lines(pending: PendingTimers, rows: Sequence[int], now_ms: int) -> tuple[TopicLine, ...]:
    found: dict[int, list[int]] = {}  # number, overdue, first and last due time
    for row in rows:
        due_ms = pending.due_ms[row]
        line = found.setdefault(pending.topic[row], [0, 0, due_ms, due_ms])
        line[0] += 1
        line[1] += due_ms <= now_ms
        line[3] = due_ms
    lines = (
        TopicLine(
            topic=pending.topics[number],
            count=count,
            overdue=overdue,
            next_due_ms=first_ms,
            last_due_ms=last_ms,
        )
        for number, (count, overdue, first_ms, last_ms) in found.items()
    )
    return tuple(sorted(lines, key=lambda line: (-line.count, line.topic)))


def _stages_of_store(
    files: StoreFiles, pending: PendingTimers, now_ms: int
) -> tuple[StageLine, ...]:
    """Say what the files tell of each stage: how far it was at the last check point."""
    lines = []
    checkpoint = files.checkpoint
    entered = checkpoint.last_timer_queue_offset if checkpoint is not None else 0
    for stage, queue, done in (
        ("TimerEnqueueGetService", files.timer_queue, entered),
        ("SliceDispatchService", files.inbound, files.progress.delay_offset),
    ):
        if queue is None:
            continue
        entry = queue.entry(done)
        stored_ms = files.commit_log.store_timestamp(entry[0]) if entry and files.commit_log else -1
        lag_ms = max(0, now_ms - stored_ms) if stored_ms > 0 else 0
        waiting = max(0, queue.max_offset - done)
        remark = f"next entry {done} of {queue.max_offset}"
        lines.append(StageLine(stage, waiting, "messages", lag_ms, remark))
    if checkpoint is not None:
        due = [
            pending.due_ms[row]
            for row in range(len(pending))
            if pending.where[row] != Whereabouts.LEVEL and pending.due_ms[row] <= now_ms
        ]
        lag_ms, at_ms = now_ms - min(due) if due else 0, checkpoint.last_read_time_ms
        lines += [
            StageLine("TimerDequeueGetService", len(due), "due timers", lag_ms, "read time", at_ms),
            _flush_stage(checkpoint),
        ]
    for level, one in sorted(files.level_queues.items()):
        offset = files.level_offsets.get(level, 0)
        entry = one.entry(max(one.min_offset, offset))
        waiting = max(0, one.max_offset - offset)
        lag_ms = max(0, now_ms - entry[2]) if entry is not None else 0
        lines.append(StageLine(f"delay level {level}", waiting, "messages", lag_ms))
    return tuple(lines)


def _wheel_line(files: StoreFiles) -> WheelLine | None:
    wheel, log = files.wheel, files.log
    if wheel is None:
        return None
    waiting = [slot for slot in wheel.used_slots() if slot.time_ms >= files.read_ms and slot.num]
    fullest = max(waiting, key=lambda slot: slot.num, default=None)
    times = [slot.time_ms for slot in waiting]
    return WheelLine(
        precision_ms=files.precision_ms,
        slots_total=wheel.slots_total,
        slots_waiting=len(waiting),
        records_waiting=sum(slot.num for slot in waiting),
        first_slot_ms=min(times, default=None),
        last_slot_ms=max(times, default=None),
        fullest_slot_ms=fullest.time_ms if fullest is not None else None,
        fullest_slot_records=fullest.num if fullest is not None else 0,
        log_bytes=log.end - log.begin if log is not None else 0,
        log_files=len(log.file_starts) if log is not None else 0,
    )


def _warnings(files: StoreFiles) -> list[str]:
    warnings = []
    if files.holder is not None:
        warnings.append(
            f"the store is in use by {files.holder}: it changes while it is read, so numbers can "
            "disagree for a moment"
        )
    elif not files.clean:
        warnings.append(
            "the broker did not stop cleanly (the file abort is there): the next start reads the "
            "last second again"
        )
    return warnings


# --- a running broker --------------------------------------------------------------------------


def report_of_broker(
    address: str,
    *,
    now_ms: int,
    runtime: Mapping[str, str] | None,
    levels: DelayOffsets | None,
    checkpoint: TimerCheckpoint | None,
    counts: TimerCounts | None,
    topic: str | None = None,
    warnings: Sequence[str] = (),
) -> Report:
    """Put together what requests 28, 45, 60 and 61 answered; None where a broker refused."""
    known = counts.timing_count if counts is not None else {}
    timers = None if counts is None else sum(one.count for one in known.values())
    lines = [
        TopicLine(topic=name, count=one.count)
        for name, one in known.items()
        if one.count and topic in {None, name}
    ]
    lines.sort(key=lambda line: (-line.count, line.topic))
    stages = _stages_of_broker(runtime or {}, checkpoint)
    waiting = {line.stage: line.waiting or 0 for line in stages}
    behind = (number for stage, number in waiting.items() if stage.startswith("delay level"))
    in_levels = None if runtime is None else sum(behind)
    for level in sorted(levels.offset_table if levels is not None else {}):
        if f"delay level {level}" not in waiting:
            offset = levels.offset_table[level] if levels is not None else 0
            remark = f"next entry {offset}"
            stages.append(StageLine(f"delay level {level}", None, "messages", remark=remark))
    total = None if timers is None or in_levels is None else timers + in_levels
    of_topic = None if timers is None else sum(line.count for line in lines)
    return Report(
        kind="broker",
        source=address,
        now_ms=now_ms,
        total=total,
        selected=total if topic is None else of_topic,
        topic=topic,
        timers=timers,
        in_levels=in_levels,
        topics=tuple(lines),
        stages=tuple(stages),
        checkpoint=checkpoint,
        runtime=runtime or {},
        warnings=tuple(warnings),
    )


def _stages_of_broker(
    runtime: Mapping[str, str], checkpoint: TimerCheckpoint | None
) -> list[StageLine]:
    stages = []
    if "timerOffsetBehind" in runtime:
        tps = f"{runtime.get('timerEnqueueTps', '?')} messages/s"
        behind = _number(runtime["timerOffsetBehind"])
        stages.append(StageLine("TimerEnqueueGetService", behind, "messages", remark=tps))
    if "timerReadBehind" in runtime:
        tps = f"{runtime.get('timerDequeueTps', '?')} messages/s"
        behind_s = _number(runtime["timerReadBehind"])
        lag_ms = None if behind_s is None else behind_s * 1000
        in_wheel = _number(runtime.get("timerCongestNum", ""))
        stages.append(StageLine("TimerDequeueGetService", in_wheel, "in the wheel", lag_ms, tps))
    if checkpoint is not None:
        stages.append(_flush_stage(checkpoint))
    prefix = "scheduleMessageOffset_"
    offsets = {
        int(name.removeprefix(prefix)): value
        for name, value in runtime.items()
        if name.startswith(prefix) and name.removeprefix(prefix).isdecimal()
    }
    for level, value in sorted(offsets.items()):
        done, _, end = value.partition(",")
        next_entry, behind = _number(done), _number(end)
        if next_entry is not None and behind is not None:
            waiting = max(0, behind - next_entry)
            remark = f"next entry {next_entry} of {behind}"
            stages.append(StageLine(f"delay level {level}", waiting, "messages", remark=remark))
    return stages


def _flush_stage(checkpoint: TimerCheckpoint) -> StageLine:
    remark = f"{checkpoint.last_timer_log_flush_pos} bytes of the log synced, last change"
    return StageLine("TimerFlushService", None, "bytes", None, remark, checkpoint.timestamp)


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


# --- one document ------------------------------------------------------------------------------

COLUMNS: Final[Mapping[str, Callable[[Listed], int | str]]] = {
    "due_ms": lambda one: one.pending.due_ms,
    "topic": lambda one: one.pending.topic,
    "queue_id": lambda one: one.pending.queue_id,
    "msg_id": lambda one: one.pending.msg_id,
    "keys": lambda one: " ".join(one.pending.keys),
    "place": lambda one: one.where.name.lower(),
    "level": lambda one: one.level,
    "rolls": lambda one: one.pending.rolls,
    "accepted_ms": lambda one: one.pending.accepted_ms,
    "size": lambda one: one.size,
    "offset": lambda one: one.offset,
}
"""What JSON and CSV tell of a listed message."""


def to_document(report: Report) -> dict[str, Any]:  # Any: plain JSON values of many kinds
    """Give the report as plain values for JSON; enums by name, what is not known as null."""
    messages = {fields(Report).listed, fields(Report).oldest_overdue}
    document = asdict(
        report, filter=lambda one, _: one not in messages, value_serializer=_plain_value
    )
    oldest = report.oldest_overdue
    document["listed"] = [plain_row(one) for one in report.listed]
    document["oldest_overdue"] = None if oldest is None else plain_row(oldest)
    if report.integrity is not None:
        document["integrity"]["damaged"] = report.integrity.is_damaged
    return document


def plain_row(one: Listed) -> dict[str, Any]:
    """Give a listed message as plain values for JSON and CSV."""
    return {name: value_of(one) for name, value_of in COLUMNS.items()}


def _plain_value(_owner: object, _attribute: object, value: Any) -> Any:  # Any: as to_document
    return value.name.lower() if isinstance(value, Enum) else value
