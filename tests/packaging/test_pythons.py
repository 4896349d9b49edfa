"""The wheel works alone on every Python that it names, as far as this machine has them.

A Python is taken from PATH, or from pyenv where that is what PATH leads to. The one that runs the
tests is proved by all others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.built import Built
from tests.packaging.environment import INSTALL_SECONDS, Environment, make
from tests.packaging.test_declared import PROJECT

NAMED = sorted(
    version
    for version in (one.rpartition(" ")[2] for one in PROJECT["classifiers"])
    if version.startswith("3.") and version != "{}.{}".format(*sys.version_info)
)


def interpreter(version: str) -> str | None:
    """Give the program of a Python that runs here, or None."""
    program = shutil.which(f"python{version}")
    if program is None:
        return None
    variables = dict(os.environ)
    if pyenv := shutil.which("pyenv"):
        done = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True)
        variables["PYENV_VERSION"] = ":".join(reversed(done.stdout.split()))
    ask = "import sys, venv; print(sys.executable)"
    found = subprocess.run([program, "-c", ask], env=variables, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


@pytest.mark.timeout(INSTALL_SECONDS)
@pytest.mark.slow
@pytest.mark.parametrize("version", NAMED)
def test_the_wheel_works_on_other_pythons(version: str, built: Built, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"this machine has no Python {version}")
    environment: Environment = make(tmp_path / "venv", str(built.wheel), python=python)
    assert environment.program("alone") == f"works on {version}"
