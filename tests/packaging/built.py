"""Building what people install: wheel and source distribution, from a folder of sources.

Answers: how a build is started so that nothing of the machine comes in but what the caller names.
Must not know: what is in them. Read on: `environment.py`, which installs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[2]
CAUGHT = frozenset({".git", ".venv", "dist", "build"})
"""Names at the top that are no sources. What .gitignore names besides, the build leaves out."""


@dataclass(frozen=True)
class Built:
    """A wheel and a source distribution of the same sources."""

    wheel: Path
    sdist: Path

    def wheel_names(self) -> set[str]:
        """Give the names of all files in the wheel."""
        with ZipFile(self.wheel) as archive:
            return set(archive.namelist())

    def in_wheel(self, ending: str) -> bytes:
        """Give the one file of the wheel whose name ends so."""
        with ZipFile(self.wheel) as archive:
            (name,) = (one for one in archive.namelist() if one.endswith(ending))
            return archive.read(name)

    def sdist_names(self) -> set[str]:
        """Give the names of all files in the source distribution, below its one folder."""
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}

    def metadata(self) -> Message:
        """Give what the wheel says about itself."""
        return message_from_bytes(self.in_wheel(".dist-info/METADATA"))


def build(sources: Path, target: Path, *kinds: str, umask: int = -1, **variables: str) -> Built:
    """Build both, or only the given kinds (``wheel``, ``sdist``), with more variables set."""
    wanted = [part for kind in kinds for part in ("-t", kind)]
    kept = {name: text for name, text in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(target), *wanted],
        cwd=sources,
        env=kept | variables,
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Built(
        wheel=next(target.glob("*.whl"), target / "none"),
        sdist=next(target.glob("*.tar.gz"), target / "none"),
    )


def copy_of_sources(target: Path) -> Path:
    """Copy the sources of this checkout, as a clone of today would have them: with other times."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if name == "__pycache__" or name.startswith(".")}
        found -= {".ci", ".gitignore"}
        return found | (CAUGHT & set(names) if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, target, ignore=left_out, copy_function=shutil.copy)
    return target
