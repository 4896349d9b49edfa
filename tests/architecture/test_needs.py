"""The table of what tests need is true: its places exist, and each need is told with its source."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.needs import NEEDS, PROGRAMS, ROOT, SOURCES, is_there, needs_of

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_place_of_the_table_exists() -> None:
    assert [place for place in NEEDS if not (ROOT / place).exists()] == []


def test_every_need_is_told_with_what_brings_it() -> None:
    assert {need for needs in NEEDS.values() for need in needs} <= SOURCES.keys() | PROGRAMS.keys()


@pytest.mark.parametrize("source", sorted(set(SOURCES.values())))
def test_every_source_is_an_extra_or_a_group_of_the_project(source: str) -> None:
    kind, name = source.rsplit(" ", 1)
    extras = PROJECT["project"]["optional-dependencies"]
    assert name in {"extra": extras, "dependency group": PROJECT["dependency-groups"]}[kind]


def test_a_file_needs_what_its_folders_need() -> None:
    assert {"pyspark", "grpc"} <= set(needs_of(ROOT / "tests/spark/test_connect.py"))
    assert needs_of(Path(__file__)) == []


def test_a_package_below_an_absent_one_is_absent() -> None:
    assert is_there("xml.etree")
    assert not is_there("no_such_package.inner")
