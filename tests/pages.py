"""Pages for users, whose programs run as they stand there.

A block of Python that begins with the name of a file is that file. A block ``console`` has commands
after ``$``, each with what it prints; a line of three dots stands for any number of lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = re.compile(r"# (\w+\.py)\n")
VARIES = re.compile(r"(?<= in )\d+\.\d+s(?: \(\d+:\d\d:\d\d\))?|(?<=127\.0\.0\.1:)\d+")
"""Seconds and ports, which differ from run to run."""
ANY_LINES = "..."
OTHERS = ("randomly", "asyncio", "anyio", "celery", "cacheprovider")
"""Plugins that a reader need not have, and that print lines of their own."""


def blocks_of(page: str, language: str = "python") -> list[str]:
    """The blocks of a language on a page, which is named from the root."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def files_of(page: str) -> dict[str, str]:
    """The files that a page shows, by name."""
    named = [(NAME.match(block), block) for block in blocks_of(page)]
    return {name[1]: block for name, block in named if name}


def commands_of(page: str) -> dict[str, str]:
    """The commands that a page shows, and what each is to print."""
    found = [
        one.split("\n", 1)
        for block in blocks_of(page, "console")
        for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    return dict(found)


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether a program printed what a page shows, but for what differs from run to run."""
    lines = [VARIES.sub("0", one.rstrip()) for one in shown.strip().splitlines()]
    pattern = "".join("(?:.*\n)*?" if one == ANY_LINES else re.escape(one) + "\n" for one in lines)
    told = [VARIES.sub("0", one.rstrip()) for one in printed.strip().splitlines()]
    return re.fullmatch(pattern, "".join(f"{one}\n" for one in told)) is not None


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python as a user does, in another process, with the packages of this tree."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def pytest_options() -> list[str]:
    """Ask for the plugin where the package was installed before it had one."""
    if [*entry_points(group="pytest11", name="rocketmq")]:
        return []
    return ["-p", "embedded_broker.pytest_plugin"]


def printed(command: str, files: dict[str, str], folder: Path) -> str:
    """What a command of a page prints in a folder that has the files of the page."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    program, *arguments = shlex.split(command)
    if program == "pytest":
        without = [option for name in OTHERS for option in ("-p", f"no:{name}")]
        arguments = ["-m", "pytest", *pytest_options(), *without, "-W", "error", *arguments]
    return python(*arguments, folder=folder).stdout
