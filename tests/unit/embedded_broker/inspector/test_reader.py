"""A store is opened as it lies there, and what cannot be opened is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker.errors import StoreError
from embedded_broker.inspector.reader import Severity, StoreFiles
from tests.archives import unpack_store
from tests.unit.embedded_broker.inspector.store_tools import overwrite, rig_in


@pytest.mark.parametrize(
    ("name", "clean", "queue_end", "levels", "counts"),
    [
        ("r533-clean", True, 25, {5: 0, 6: 0}, {"FIX_timer": 25}),
        ("r533-crash", False, 25, {5: 0, 6: 0}, {"FIX_timer": 25}),
        ("r497-levels", True, 0, {}, {}),
    ],
)
def test_stores_of_real_brokers_are_read(
    tmp_path: Path,
    name: str,
    clean: bool,
    queue_end: int,
    levels: dict[int, int],
    counts: dict[str, int],
) -> None:
    with StoreFiles.open(unpack_store(name, tmp_path)) as files:
        assert files.findings == []
        assert files.clean is clean
        assert files.holder is None
        assert files.precision_ms == 1000
        assert (files.timer_queue.max_offset if files.timer_queue else 0) == queue_end
        assert {level: queue.max_offset > 0 for level, queue in files.level_queues.items()} == {
            5: True,
            6: True,
        }
        assert files.level_offsets == levels
        assert files.counts == counts
        assert (files.read_ms > 0) == bool(queue_end)


@pytest.mark.parametrize("precision_ms", [100, 1000])
@pytest.mark.parametrize("meta", [True, False])
def test_the_precision_is_found_in_timermeta_or_in_any_used_slot(
    tmp_path: Path, precision_ms: int, meta: bool
) -> None:
    rig = rig_in(tmp_path, config={"timerPrecisionMs": precision_ms})
    rig.timer(7_300)
    rig.close()
    if not meta:
        (tmp_path / "config" / "timermeta").unlink()
    with StoreFiles.open(tmp_path) as files:
        assert (files.meta is not None) == meta
        assert files.precision_ms == precision_ms
        assert files.wheel is not None
        assert files.wheel.precision_ms == precision_ms


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    with pytest.raises(StoreError, match="neither commitlog nor timerwheel"):
        StoreFiles.open(tmp_path)


def test_what_cannot_be_opened_is_a_finding_and_the_rest_is_read(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    (root / "timerwheel").write_bytes(b"x" * 33)
    (root / "config" / "timercheck").write_bytes(b"short")
    (root / "config" / "timermetrics").write_bytes(b"{")
    with StoreFiles.open(root) as files:
        found = {(one.severity, one.file) for one in files.findings}
        assert found == {
            (Severity.DAMAGE, "timerwheel"),
            (Severity.DAMAGE, "config/timercheck"),
            (Severity.REPAIR, "config/timermetrics"),
        }
        assert files.timer_queue is not None
        assert files.timer_queue.max_offset == 25


def test_the_copy_in_timermeta_stands_in_for_a_lost_check_point(tmp_path: Path) -> None:
    rig = rig_in(tmp_path)
    rig.timer(5_000)
    rig.close()
    with StoreFiles.open(tmp_path) as files:
        first = files.checkpoint
    (tmp_path / "config" / "timercheck").unlink()
    with StoreFiles.open(tmp_path) as files:
        assert files.checkpoint == first


def test_the_begin_of_a_queue_is_the_first_message_that_still_exists(tmp_path: Path) -> None:
    rig = rig_in(tmp_path, config={"mappedFileSizeCommitLog": 4096})
    for _ in range(60):
        rig.timer(5_000)
    rig.close()
    logs = sorted((tmp_path / "commitlog").iterdir())
    logs[0].unlink()
    with StoreFiles.open(tmp_path) as files:
        assert files.timer_queue is not None
        assert files.commit_log is not None
        assert 0 < files.timer_queue.min_offset < files.timer_queue.max_offset == 60
        entry = files.timer_queue.entry(files.timer_queue.min_offset)
        assert entry is not None
        assert entry[0] >= files.commit_log.min_offset == 4096


def test_a_hole_in_the_commit_log_is_a_finding(tmp_path: Path) -> None:
    rig = rig_in(tmp_path, config={"mappedFileSizeCommitLog": 4096})
    for _ in range(60):
        rig.timer(5_000)
    rig.close()
    sorted((tmp_path / "commitlog").iterdir())[1].unlink()
    with StoreFiles.open(tmp_path) as files:
        assert [one.file for one in files.findings] == ["commitlog"]
        assert "is missing, though there is" in files.findings[0].text


def test_a_backup_stands_in_for_an_unreadable_table(tmp_path: Path) -> None:
    root = unpack_store("r533-clean", tmp_path)
    table = root / "config" / "timermetrics"
    (root / "config" / "timermetrics.bak").write_bytes(table.read_bytes())
    overwrite(table, 0, b"\0\0\0")
    with StoreFiles.open(root) as files:
        assert files.counts == {"FIX_timer": 25}
        assert [one.severity for one in files.findings] == [Severity.REPAIR]
