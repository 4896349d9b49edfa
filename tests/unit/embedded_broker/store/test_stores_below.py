"""What is said of a directory that is no store and holds some."""

from __future__ import annotations

from pathlib import Path

from embedded_broker.store.stores_below import SHOWN_MAX, stores_below

SIGNS = ("commitlog", "timerwheel")


def test_folders_with_a_sign_are_named_in_order(tmp_path: Path) -> None:
    assert stores_below(tmp_path, SIGNS) == ""
    for name in ("b/commitlog", "a/config", "c"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "c" / "timerwheel").touch()
    (tmp_path / "commitlog.txt").touch()
    assert stores_below(tmp_path, SIGNS) == ". There are stores below it: b, c"
    assert stores_below(tmp_path / "nowhere", SIGNS) == ""


def test_of_many_only_some_are_named(tmp_path: Path) -> None:
    for number in range(SHOWN_MAX + 3):
        (tmp_path / f"s{number:02}" / "commitlog").mkdir(parents=True)
    told = stores_below(tmp_path, SIGNS)
    assert told.endswith(f"s{SHOWN_MAX - 1:02} and 3 more")
