"""The programs of the page about moving to the SDK run as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages import blocks_of, commands_of, files_of, is_as_shown, printed

PAGE = "MIGRATION.md"
FILES = files_of(PAGE)
COMMANDS = commands_of(PAGE)
OF_UNIT_TESTS = ("ctypes_", "java_", "v5_")
"""Beginnings of names of programs that `tests/unit/compat` runs."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_what_the_page_shows(command: str, tmp_path: Path) -> None:
    told = printed(command, FILES, tmp_path)
    assert is_as_shown(COMMANDS[command], told), told


def test_every_block_is_a_file_that_a_command_runs_or_a_test_imports() -> None:
    assert len(blocks_of(PAGE)) == len(FILES) > 0
    tests = [text for name, text in FILES.items() if any(name in one for one in COMMANDS)]
    others = [
        Path(name).stem
        for name in FILES
        if not name.startswith(OF_UNIT_TESTS) and not any(name in one for one in COMMANDS)
    ]
    assert [name for name in others if not any(f"from {name} import" in t for t in tests)] == []
