"""Fresh virtual environments that hold the built wheel, some extras of it, and nothing else.

Answers: how one is made, and how a program runs in it without seeing this checkout. Must not know:
what the programs prove. Packages come by pip, from its cache where that has them. Where pip cannot
reach them, a test is skipped; in CI it fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parent / "programs"
RUN_SECONDS = 120
INSTALL_SECONDS = 300
"""What a test may take that has to install something: the network is not ours."""
UNREACHABLE = re.compile("connection broken|NewConnectionError|name resolution|timed out")


@dataclass(frozen=True)
class Environment:
    """One virtual environment."""

    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def run(
        self, *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs; the variables of Python's that are set here do not count."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))}
        program = str(self.folder / "bin" / arguments[0])
        return subprocess.run(
            [program, *arguments[1:]],
            cwd=cwd or self.folder,
            env=kept | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )

    def program(self, name: str, *arguments: str) -> str:
        """Run a file of ``programs/`` and give what it prints; it must end well."""
        done = self.run("python", "-I", str(PROGRAMS / f"{name}.py"), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()


def make(folder: Path, requirement: str, *, python: str = sys.executable) -> Environment:
    """Make an environment of this Python or another one, and install into it."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    environment = Environment(folder)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", environment.python, "install"]
    done = subprocess.run(
        [*pip, "--no-compile", requirement], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        if "CI" not in os.environ and UNREACHABLE.search(done.stderr):
            pytest.skip(f"pip cannot reach the packages: {done.stderr.strip().splitlines()[-1]}")
        pytest.fail(done.stderr, pytrace=False)
    return environment
