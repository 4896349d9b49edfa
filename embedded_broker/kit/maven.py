"""Jars of RocketMQ, fetched once through Maven and kept.

Answers: where the jars of a release are on this machine. Must not know: what is run from them.
Read on: ``embedded_broker/kit/process.py``.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Final

from embedded_broker.kit.backend import BackendError
from rocketmq_py.clock import monotonic

CACHE_VARIABLE: Final = "ROCKETMQ_PY_CACHE"
FETCH_SECONDS: Final = 600.0
LOOK_AGAIN_SECONDS: Final = 0.1
ERROR: Final = "[ERROR] "
SHOWN: Final = 12
GOAL: Final = "dependency:copy-dependencies"
GROUP: Final = "org.apache.rocketmq"

POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}
</dependencies></project>"""
DEPENDENCY: Final = (
    "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId>"
    "<version>{2}</version>{3}</dependency>"
)
ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def cache_folder() -> Path:
    """Where jars are kept: ``$ROCKETMQ_PY_CACHE``, else ``rocketmq-py`` in the user's cache."""
    if own := os.environ.get(CACHE_VARIABLE):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rocketmq-py"


def release(version: str, *artifacts: str, cache: Path | None = None) -> Path:
    """Folder with artifacts of one RocketMQ release and all they depend on."""
    wanted = [f"{GROUP}:{artifact}:{version}" for artifact in artifacts]
    return fetched(f"{'+'.join(artifacts)}-{version}", *wanted, cache=cache)


def fetched(name: str, *coordinates: str, cache: Path | None = None, alone: bool = False) -> Path:
    """Folder with the jars of ``group:artifact:version`` each, and with all they depend on.

    ``alone`` leaves those out. The folder is made once, below the cache, under the given name;
    other processes that want the same one wait for the first. Raises `BackendError` when Maven is
    missing, fails, or takes longer than ten minutes.
    """
    home = (cache or cache_folder()) / name
    done = home / "complete"
    if not done.exists():
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / "lock"):
            if not done.exists():
                _fetch(home, coordinates, ALONE if alone else "")
                done.touch()
    return home / "lib"


def _fetch(home: Path, coordinates: tuple[str, ...], last: str) -> None:
    names = ", ".join(coordinates)
    maven = shutil.which("mvn")
    if maven is None:
        raise BackendError(
            f"{names} would be fetched through Maven, and no program mvn is on PATH: install Maven"
        )
    wanted = "".join(DEPENDENCY.format(*one.split(":"), last) for one in coordinates)
    (home / "pom.xml").write_text(POM.format(wanted), encoding="utf-8")
    command = [maven, "-q", "-B", "-Dstyle.color=never", GOAL, "-DoutputDirectory=lib"]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; names come from the caller
            command, cwd=home, check=False, capture_output=True, text=True, timeout=FETCH_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise BackendError(f"Maven did not bring {names} in {FETCH_SECONDS:.0f} s") from None
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        errors = [line for line in said if ERROR in line]  # the reason stands first, then advice
        told = "\n".join(errors[:1] or said[-SHOWN:])
        raise BackendError(f"Maven could not bring {names}; it said:\n{told}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes out, for as long as one of them may need to fetch."""
    deadline_s = monotonic() + FETCH_SECONDS
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if monotonic() > deadline_s:
                    raise BackendError(f"another process has held {path} for too long") from None
                Event().wait(LOOK_AGAIN_SECONDS)
        yield  # closing the file opens the lock
