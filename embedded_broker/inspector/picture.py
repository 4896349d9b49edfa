"""The histogram of a report as a PNG file.

Answers: how the bars of `report.Bucket` look on paper. Needs matplotlib, the extra `plot`; without
it the error names the extra. Draws without a display and leaves matplotlib's settings alone.
"""

import os
from datetime import UTC, datetime, tzinfo
from typing import Final

from embedded_broker.clocks.instants import instant
from embedded_broker.inspector.report import Report
from rocketmq_py.errors import UnsupportedOperationError, how_to_install

_SIZE_INCHES: Final = (8.0, 3.6)
_DPI: Final = 110
_COLOURS: Final = ("#3b6ea8", "#e08a3c", "#5a9e6f", "#b9556b", "#8a6fb0", "#9a9a9a")


def save_picture(
    report: Report, path: str | os.PathLike[str], *, zone: tzinfo | None = UTC
) -> None:
    """Write the picture; an existing file is replaced.

    `zone` is the time zone of the axis, None this machine's. Raises `UnsupportedOperationError`
    without matplotlib or when the report has no due times (a running broker's), `OSError` when
    the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UnsupportedOperationError(
            f"a picture needs matplotlib: {how_to_install('plot')}"
        ) from error
    if not report.buckets:
        raise UnsupportedOperationError(
            f"{report.source}: there are no due times to draw; only a store directory with "
            "waiting messages has them"
        )
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    numbers = range(len(report.buckets))
    names = list(dict.fromkeys(name for one in report.buckets for name in one.by_topic))
    names.sort(key=lambda name: -sum(one.by_topic.get(name, 0) for one in report.buckets))
    below = [0] * len(report.buckets)
    for place, name in enumerate(names):
        heights = [one.by_topic.get(name, 0) for one in report.buckets]
        colour = _COLOURS[min(place, len(_COLOURS) - 1)]
        axes.bar(numbers, heights, width=0.9, align="edge", bottom=below, color=colour, label=name)
        below = [low + height for low, height in zip(below, heights, strict=True)]
    width_s = (report.buckets[0].to_ms - report.buckets[0].from_ms) // 1000
    begin = _moment(report.buckets[0].from_ms, zone)
    every = max(1, len(report.buckets) // 8)
    ticks = list(numbers)[::every]
    labels = [_label(report.buckets[tick].from_ms, width_s, zone) for tick in ticks]
    axes.set_xticks(ticks, labels, fontsize=8)
    axes.set_ylabel("messages due")
    axes.set_xlabel(f"due time ({begin:%Y-%m-%d} {begin.tzname()}), {_span(width_s)} a bar")
    axes.set_title(f"{report.selected} messages waiting", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, format="png", pil_kwargs={"optimize": True})


def _moment(epoch_ms: int, zone: tzinfo | None) -> datetime:
    return instant(epoch_ms).astimezone(zone)


def _label(epoch_ms: int, width_s: int, zone: tzinfo | None) -> str:
    moment = _moment(epoch_ms, zone)
    if width_s >= 86_400:
        return f"{moment:%m-%d}"
    return f"{moment:%H:%M}" if width_s >= 60 else f"{moment:%H:%M:%S}"


def _span(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
