"""The tutorial's files run as they stand there, and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker
from tests.needs import METRICS, SPANS, skip_without
from tests.pages import commands_of, files_of, is_as_shown, printed

PAGE = "TUTORIAL.md"
FILES = files_of(PAGE)
COMMANDS = commands_of(PAGE)
REAL = [one for one in COMMANDS if "--rocketmq=" in one]
NEWER = "process:5.3.3"
NEEDS = {"spans.py": SPANS, "metrics.py": METRICS}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("command", [one for one in COMMANDS if one not in REAL])
def test_a_command_prints_what_the_page_shows(command: str, tmp_path: Path) -> None:
    skip_without(*NEEDS.get(command.rsplit(maxsplit=1)[-1], ()))
    told = printed(command, FILES, tmp_path)
    assert is_as_shown(COMMANDS[command], told), told


@pytest.mark.timeout(300)
def test_a_broker_with_an_address_prints_what_the_page_shows_of_a_real_one(tmp_path: Path) -> None:
    (command,) = [one for one in REAL if NEWER in one]
    with EmbeddedBroker(inproc=False) as broker:
        address = broker.namesrv_addr
        told = printed(command.replace(NEWER, address), FILES, tmp_path)
    assert is_as_shown(COMMANDS[command], told.replace(address, NEWER)), told


def test_every_file_of_the_page_is_run() -> None:
    assert [name for name in FILES if not any(name in command for command in COMMANDS)] == []
    assert len(COMMANDS) >= len(FILES) > 0


@pytest.mark.parametrize(
    ("shown", "told", "same"),
    [
        ("a\n1 passed in 0.20s\n", "a\n1 passed in 61.50s (0:01:01)\n", True),
        ("at 127.0.0.1:9876\n", "at 127.0.0.1:40001\n", True),
        ("a\n...\nz\n", "a\nb\nc\nz\n", True),
        ("a\n...\nz\n", "a\nz\n", True),
        ("a\nz\n", "a\nb\nz\n", False),
        ("1 passed in 0.20s\n", "2 passed in 0.20s\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(shown: str, told: str, same: bool) -> None:
    assert is_as_shown(shown, told) is same
