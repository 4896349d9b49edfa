"""`rocketmq-py timers`: what waits in a timer store, for when, and why it is late.

Turns options into one look at a store directory (`embedded_broker/inspector`) or into questions to
running brokers (`asking.py`), and prints the report as tables (`timers_view.py`), JSON, CSV or a
picture. Exit status: 0, 1 when the files are damaged, 2 when there is nothing to report, 3 when a
broker did not tell how many wait.
"""

import csv
import os
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from embedded_broker.cli.access import AccessKey, CaFile, CertFile, UseTls, client_settings
from embedded_broker.cli.asking import ask_brokers
from embedded_broker.cli.paths import given_output, given_path
from embedded_broker.clocks.instants import instant
from embedded_broker.errors import StoreError
from embedded_broker.inspector.reader import StoreFiles, require_rights
from embedded_broker.inspector.report import (
    COLUMNS,
    Report,
    plain_row,
    report_of_store,
    to_document,
)
from rocketmq_py import RocketMQError, SystemClock
from rocketmq_py.clock import LATEST_MS
from rocketmq_py.protocol.json_text import dumps

DAMAGED: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
_LISTED_DEFAULT: Final = 10
_ALL: Final = 2**62
_SPAN: Final = re.compile(r"\+(\d+)(ms|s|m|h|d)")
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_ADDRESS: Final = re.compile(r"[^/\\]+:\d+")


Target = Annotated[
    str,
    typer.Argument(
        help="A store directory, or HOST:PORT of a broker or name server.", show_default=False
    ),
]
Topic = Annotated[str | None, typer.Option(help="Only messages of this topic.")]
Before = Annotated[
    str | None,
    typer.Option(help="Only messages due before this: ISO time, epoch ms, or +15m, +2h, +3d."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="How many messages to list in due order.",
        show_default=f"{_LISTED_DEFAULT}; all with --csv",
    ),
]
Buckets = Annotated[int, typer.Option(min=1, max=500, help="How many bars the histogram may have.")]
At = Annotated[
    str | None,
    typer.Option(help="The time that counts as now: ISO time or epoch ms.", show_default="now"),
]
AsCsv = Annotated[
    bool,
    typer.Option(
        "--csv",
        help="Print CSV: a row for each message of a store. A running broker tells only how many "
        "wait: a row for each topic.",
    ),
]
Png = Annotated[
    Path | None,
    typer.Option(
        parser=given_output, metavar="FILE", help="Also draw the histogram into this file."
    ),
]


def timers(
    target: Target,
    *,
    topic: Topic = None,
    before: Before = None,
    limit: Limit = None,
    buckets: Buckets = 24,
    at: At = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_csv: AsCsv = False,
    png: Png = None,
    verify: Annotated[
        bool, typer.Option("--check/--no-check", help="Check the files against each other.")
    ] = True,
    utc: Annotated[bool, typer.Option("--utc", help="Show UTC instead of local time.")] = False,
    access_key: AccessKey = None,
    tls: UseTls = False,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
) -> None:
    """Show what waits in a timer store, for when, and whether its files are whole.

    A directory is only read. Not one byte of it changes, so it may belong to a running broker.
    """
    if as_json and as_csv:
        raise typer.BadParameter("use --json or --csv, not both")
    now_ms = SystemClock().now_ms if at is None else _time_ms(at, "--at", None)
    before_ms = None if before is None else _time_ms(before, "--before", now_ms)
    listed = limit if limit is not None else _ALL if as_csv else _LISTED_DEFAULT
    is_directory = _is_directory(target)
    if not is_directory and not (before is None and limit is None):
        raise typer.BadParameter(
            "--before and --limit need a store directory: a running broker does not tell due times"
        )
    try:
        if is_directory:
            with StoreFiles.open(target) as files:
                report = report_of_store(
                    files,
                    now_ms=now_ms,
                    topic=topic,
                    before_ms=before_ms,
                    limit=listed,
                    buckets=buckets,
                    verify=verify,
                )
            reports = [report]
        else:
            settings = client_settings(
                access_key=access_key, tls=tls, ca_file=ca_file, cert_file=cert_file
            )
            reports = ask_brokers(target, now_ms=now_ms, topic=topic, **settings)
        if png is not None:
            _draw(reports[0], png, utc=utc)
    except (RocketMQError, OSError) as error:
        typer.secho(f"rocketmq-py: {error}", err=True, fg="red")
        raise typer.Exit(FAILED) from error
    for report in reports:
        if report.kind == "broker":
            _tell_refused(report)
    if as_json:
        _print_json(reports)
    elif as_csv:
        _print_csv(reports)
    else:
        _print_tables(reports, utc=utc)
    if status := _status(reports):
        raise typer.Exit(status)


def _status(reports: list[Report]) -> int:
    if any(one.integrity is not None and one.integrity.is_damaged for one in reports):
        return DAMAGED
    return UNKNOWN if any(one.total is None for one in reports) else 0


def _draw(report: Report, png: Path, *, utc: bool) -> None:
    from embedded_broker.inspector.picture import save_picture

    if report.kind == "store" and not report.buckets:
        note = f"{png} is not written: no message waits, so there is nothing to draw"
        typer.secho(f"rocketmq-py: {note}", err=True, fg="yellow")
    else:
        save_picture(report, png, zone=UTC if utc else None)


def _tell_refused(report: Report) -> None:
    """Say on stderr what a broker did not tell: no format may look as if it had."""
    if report.total is None:
        text = f"{report.source} does not tell how many messages wait"
        typer.secho(f"rocketmq-py: {text}", err=True, fg="red")
    for warning in report.warnings:
        typer.secho(f"warning: {report.source}: {warning}", err=True, fg="yellow")


def _is_directory(target: str) -> bool:
    """Tell a directory from an address; raises BadParameter for what is neither."""
    if os.path.isdir(target):  # noqa: PTH112 - Path's raises where it may not look
        return True
    if _ADDRESS.fullmatch(target):
        return False
    given_path(target)
    try:
        require_rights(Path(target))
    except StoreError as error:
        raise typer.BadParameter(str(error)) from None
    raise typer.BadParameter(f"{target}: neither a directory nor HOST:PORT")


def _time_ms(text: str, option: str, now_ms: int | None) -> int:
    """Read a time between 1970 and 9999; see `_read_time_ms`."""
    try:
        found = _read_time_ms(text, option, now_ms)
    except (OverflowError, ValueError):  # too many digits, or a zone took it out of all years
        found = -1
    if not 0 <= found <= LATEST_MS:
        raise typer.BadParameter(
            f"{option} {text}: must lie between 1970-01-01 and 9999-12-31 UTC, that is 0 to "
            f"{LATEST_MS} epoch milliseconds"
        )
    return found


def _read_time_ms(text: str, option: str, now_ms: int | None) -> int:
    """Read a time: epoch ms, +span (only where there is a now), or ISO 8601, local without zone."""
    if text.isascii() and text.isdecimal():
        return int(text)
    span = _SPAN.fullmatch(text)
    if span is not None and now_ms is not None:
        return now_ms + int(span[1]) * _UNITS_MS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        relative = ", or +15m, +2h, +3d from now" if now_ms is not None else ""
        raise typer.BadParameter(
            f"{option} {text}: must be an ISO time such as 2030-01-31T12:00, epoch "
            f"milliseconds{relative}"
        ) from None
    return (moment.astimezone(UTC) - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def _print_tables(reports: list[Report], *, utc: bool) -> None:
    from embedded_broker.cli.timers_view import show

    for report in reports:
        show(report, utc=utc)


def _print_json(reports: list[Report]) -> None:
    """Print a store as an object, brokers as an array however many there are."""
    documents = [to_document(report) for report in reports]
    is_store = bool(reports) and reports[0].kind == "store"
    typer.echo(dumps(documents[0] if is_store else documents, sort_keys=True))


def _print_csv(reports: list[Report]) -> None:
    if reports and reports[0].kind == "broker":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(["broker", "topic", "waiting"])
        for report in reports:
            writer.writerows([report.source, line.topic, line.count] for line in report.topics)
        return
    rows = csv.DictWriter(sys.stdout, ["due", *COLUMNS], lineterminator="\n")
    rows.writeheader()
    for report in reports:
        for one in report.listed:
            due = instant(one.pending.due_ms)
            rows.writerow({"due": due.isoformat(timespec="milliseconds"), **plain_row(one)})
