"""The sub-commands of `rocketmq-py`: each is there, and imports no more than it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embedded_broker.cli.commands import MODULES

NAMES_WHAT_IT_IMPORTED = """
import sys
from embedded_broker.cli import main

try:
    main()
finally:
    print("imported", *sorted({"embedded_broker.api", "rocketmq_py.admin"} & set(sys.modules)))
"""


def told(*arguments: str) -> list[str]:
    """Call the command, which must succeed, and give the lines that it wrote."""
    done = subprocess.run(
        [sys.executable, "-c", NAMES_WHAT_IT_IMPORTED, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("arguments", "imported"),
    [
        (["--version"], "imported"),
        (["version"], "imported"),
        (["options", "grpc"], "imported"),
        (["serve", "--help"], "imported embedded_broker.api"),
        (["timers", "--help"], "imported rocketmq_py.admin"),
    ],
)
def test_a_command_imports_what_it_needs(arguments: list[str], imported: str) -> None:
    assert told(*arguments)[-1] == imported


def test_the_help_names_every_command() -> None:
    text = "\n".join(told("--help"))
    assert all(f"\n  {name} " in text for name in MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_every_command_has_a_help(name: str) -> None:
    assert any("Usage: " in line and f" {name} " in line for line in told(name, "--help"))
