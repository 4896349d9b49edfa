"""The report of `rocketmq-py timers` as tables in a terminal.

Answers: how a report looks to a person. Must not know where it comes from. Plain characters are
used where the terminal has no others.
"""

from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embedded_broker.clocks.instants import instant
from embedded_broker.inspector.integrity import Checked
from embedded_broker.inspector.reader import Severity
from embedded_broker.inspector.report import Report

_BAR_WIDTH: Final = 40
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_COLOUR: Final = {Severity.DAMAGE: "red", Severity.REPAIR: "yellow", Severity.NOTE: "dim"}


def show(report: Report, *, utc: bool = False, console: Console | None = None) -> None:
    """Print one report; times are local unless `utc`."""
    _View(report, console if console is not None else Console(highlight=False), utc=utc).show()


class _View:
    def __init__(self, report: Report, console: Console, *, utc: bool) -> None:
        self._report = report
        self._console = console
        self._utc = utc
        self._blocks = console.encoding.lower().startswith("utf")

    def show(self) -> None:
        """Print every part that the report has."""
        self._head()
        self._histogram()
        self._topics()
        self._listed()
        self._stages()
        self._wheel()
        if self._report.integrity is not None:
            self._integrity(self._report.integrity)

    # --- parts -------------------------------------------------------------------------------

    def _head(self) -> None:
        report, write = self._report, self._console.print
        what = "running broker" if report.kind == "broker" else "store"
        if report.clean:
            what = "store, stopped cleanly"
        write(f"[bold]{escape(report.source)}[/] ({what}), now {self._time(report.now_ms)}")
        parts = [f"[bold]{_count(report.total)}[/] waiting"]
        if report.kind == "broker":
            parts = [
                f"{parts[0]}: {_timers(report.timers)}",
                f"{_count(report.in_levels)} in delay levels",
            ]
        elif report.selected != report.total:
            parts.append(f"{_count(report.selected)} selected")
        for label, count in (
            ("overdue", report.overdue),
            ("recalled", report.recalled),
            ("released already", report.already_released),
        ):
            if count:
                parts.append(f"{count} {label}")
        write(", ".join(parts))
        if report.kind == "broker" and report.topic is not None:
            write(f"of topic {escape(report.topic)}: {_timers(report.selected)}")
        # What a broker refused is told on stderr, whatever the format.
        for warning in report.warnings if report.kind == "store" else ():
            write(f"[yellow]warning: {escape(warning)}[/]")
        oldest = report.oldest_overdue
        if oldest is not None:
            one = oldest.pending
            late = _span(report.now_ms - one.due_ms)
            write(
                f"[red]oldest overdue: {escape(one.topic)} {escape(one.msg_id)}, "
                f"due {self._time(one.due_ms)}, {late} late[/]"
            )
        if report.kind == "broker":
            write(
                "[dim]a running broker does not tell due times, nor topics of delay levels; "
                "ask its store directory[/]"
            )

    def _histogram(self) -> None:
        buckets = self._report.buckets
        if not buckets:
            return
        width_ms = buckets[0].to_ms - buckets[0].from_ms
        table = _table(f"due times, {_span(width_ms)} for each bar")
        table.add_column("from")
        table.add_column("messages", justify="right")
        table.add_column("")
        most = max(one.count for one in buckets)
        for one in buckets:
            colour = "red" if one.to_ms <= self._report.now_ms else "cyan"
            bar = f"[{colour}]{self._bar(one.count, most)}[/]"
            table.add_row(self._time(one.from_ms), str(one.count), bar)
        self._console.print(table)

    def _topics(self) -> None:
        lines = self._report.topics
        if not lines:
            return
        is_store = self._report.kind == "store"
        table = _table("by topic" if is_store else "timers by topic")
        table.add_column("topic", overflow="fold")
        table.add_column("waiting", justify="right")
        timed = any(line.next_due_ms is not None for line in lines)
        if timed:
            table.add_column("overdue", justify="right")
            table.add_column("next due")
            table.add_column("last due")
        for line in lines:
            row = [escape(line.topic), str(line.count)]
            if timed:
                row += [str(line.overdue), self._time(line.next_due_ms)]
                row.append(self._time(line.last_due_ms))
            table.add_row(*row)
        self._console.print(table)

    def _listed(self) -> None:
        listed = self._report.listed
        if not listed:
            return
        left = (self._report.selected or 0) - len(listed)
        table = _table(f"next messages ({left} more are not shown)" if left else "messages")
        for name in ("due", "topic", "id", "where"):
            table.add_column(name, overflow="fold")
        for line in listed:
            one = line.pending
            where = f"level {line.level}" if line.level else line.where.name.lower()
            if one.rolls:
                where += f", {one.rolls} rolls"
            due = self._time(one.due_ms, millis=True)
            table.add_row(due, escape(one.topic), escape(one.msg_id), where)
        self._console.print(table)

    def _stages(self) -> None:
        lines = self._report.stages
        if not lines:
            return
        table = _table("pipeline" if self._report.topic is None else "pipeline of all topics")
        table.add_column("stage", overflow="fold")
        table.add_column("waiting", justify="right")
        table.add_column("lag", justify="right")
        table.add_column("")
        for line in lines:
            waiting = "-" if line.waiting is None else f"{line.waiting} {line.unit}"
            lag = "-" if line.lag_ms is None else _span(line.lag_ms)
            remark = escape(line.remark)
            if line.at_ms is not None:
                remark += f" {self._time(line.at_ms)}"
            table.add_row(line.stage, waiting, lag, remark)
        self._console.print(table)

    def _wheel(self) -> None:
        wheel, checkpoint, write = (
            self._report.wheel,
            self._report.checkpoint,
            self._console.print,
        )
        if wheel is not None:
            write(
                f"[bold]wheel[/] {wheel.slots_waiting} of {wheel.slots_total} slots of "
                f"{wheel.precision_ms} ms hold {wheel.records_waiting} records; "
                f"timer log {wheel.log_bytes} bytes in {wheel.log_files} files"
            )
            if wheel.fullest_slot_ms is not None:
                write(
                    f"      slots {self._time(wheel.first_slot_ms)} to "
                    f"{self._time(wheel.last_slot_ms)}; the fullest is "
                    f"{self._time(wheel.fullest_slot_ms)} with {wheel.fullest_slot_records} records"
                )
        if checkpoint is not None:
            write(
                f"[bold]check point[/] read time {self._time(checkpoint.last_read_time_ms)}, "
                f"log flushed to {checkpoint.last_timer_log_flush_pos}, queue offset "
                f"{checkpoint.last_timer_queue_offset} (master "
                f"{checkpoint.master_timer_queue_offset}), version "
                f"{checkpoint.state_version}.{checkpoint.counter} of "
                f"{self._time(checkpoint.timestamp)}"
            )

    def _integrity(self, checked: Checked) -> None:
        write = self._console.print
        looked_at = (
            f"{checked.slots} slots, {checked.records} log records, {checked.messages} messages, "
            f"{checked.queue_entries} queue entries checked"
        )
        verdict = "[red]damaged[/]" if checked.is_damaged else "[green]whole[/]"
        write(f"[bold]files[/] {verdict}: {looked_at}")
        for one in checked.findings:
            at = "" if one.position < 0 else f" at {one.position}"
            colour = _COLOUR[one.severity]
            write(f"  [{colour}]{one.severity}[/] {escape(one.file)}{at}: {escape(one.text)}")
        for kind, count in checked.hidden.items():
            write(f"  [dim]and {count} more: {escape(kind)}[/]")

    # --- words -------------------------------------------------------------------------------

    def _bar(self, count: int, most: int) -> str:
        eighths = -(-count * _BAR_WIDTH * 8 // most) if most else 0
        if not self._blocks:
            return "#" * -(-eighths // 8)
        return _EIGHTHS[8] * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    def _time(self, epoch_ms: int | None, *, millis: bool = False) -> str:
        if epoch_ms is None or epoch_ms <= 0:
            return "-"
        moment = instant(epoch_ms)
        moment = moment if self._utc else moment.astimezone()
        text = f"{moment:%Y-%m-%d %H:%M:%S}"
        text += f".{epoch_ms % 1000:03d}" if millis else ""
        # Each time has its zone: local ones of one table may lie on both sides of a change.
        return f"{text}Z" if self._utc else f"{text} {moment:%Z}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _timers(number: int | None) -> str:
    return "1 timer" if number == 1 else f"{_count(number)} timers"


def _span(milliseconds: int) -> str:
    """Write a duration by its two largest units: 90 s is 1 min 30 s."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    left, parts = milliseconds // 1000, []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, left = divmod(left, length)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
