"""The histogram as a picture: drawn when matplotlib is there, refused clearly when not."""

from __future__ import annotations

import struct
import sys
from datetime import UTC
from pathlib import Path

import pytest

from embedded_broker.inspector.picture import save_picture
from embedded_broker.inspector.report import Bucket, Report
from rocketmq_py.errors import UnsupportedOperationError

MINUTE_MS = 60_000


def report(*counts: int) -> Report:
    buckets = tuple(
        Bucket(
            from_ms=number * MINUTE_MS,
            to_ms=(number + 1) * MINUTE_MS,
            count=count,
            by_topic={"A": count} if count else {},
        )
        for number, count in enumerate(counts)
    )
    return Report(
        kind="store",
        source="DIR",
        now_ms=0,
        total=sum(counts),
        selected=sum(counts),
        buckets=buckets,
    )


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(
        UnsupportedOperationError, match="needs matplotlib: install the extra plot "
    ):
        save_picture(report(1), tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_a_picture_is_a_small_png_and_an_empty_report_has_none(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    save_picture(report(*range(30)), path, zone=UTC)
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (880, 396)
    assert len(data) < 60_000
    with pytest.raises(UnsupportedOperationError, match="no due times"):
        save_picture(report(), tmp_path / "b.png")
