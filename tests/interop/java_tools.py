"""Maven artifacts, compiled Java programs and running JVMs for the interop tests.

Everything is kept below `.cache/interop` of the checkout, so that the second run is quick.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import define, field

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "interop"
SOURCES = Path(__file__).parent / "java"
NEEDED = ("java", "javac", "mvn")
QUIET = ["-Drocketmq.client.logUseSlf4j=true", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4"]

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>interop</artifactId><version>1</version><dependencies>{}
</dependencies></project>"""
DEPENDENCY = (
    "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId>"
    "<version>{2}</version>{3}</dependency>"
)
ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def missing_tools() -> list[str]:
    """Programs that the interop tests need and this machine lacks."""
    return [tool for tool in NEEDED if shutil.which(tool) is None]


def jars(version: str, *artifacts: str) -> str:
    """Class path with the artifacts of one RocketMQ release and all they depend on."""
    wanted = [f"org.apache.rocketmq:{artifact}:{version}" for artifact in artifacts]
    return str(fetched(f"{'+'.join(artifacts)}-{version}", *wanted) / "*")


def fetched(name: str, *coordinates: str, alone: bool = False) -> Path:
    """Folder with the jars of `group:artifact:version` each, and with all they depend on.

    `alone` leaves those out. The folder is made once, below the cache, under the given name.
    """
    home = CACHE / name
    done = home / "complete"
    if not done.exists():
        home.mkdir(parents=True, exist_ok=True)
        last = ALONE if alone else ""
        wanted = "".join(DEPENDENCY.format(*one.split(":"), last) for one in coordinates)
        (home / "pom.xml").write_text(POM.format(wanted), encoding="utf-8")
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
        subprocess.run(command, cwd=home, check=True, stdout=sys.stderr)
        done.touch()
    return home / "lib"


def compiled(program: str, class_path: str) -> str:
    """Compile one program of `java/` against the class path; returns the path to run it with."""
    source = SOURCES / f"{program}.java"
    out = Path(class_path).parent.parent / "classes"
    target = out / f"{program}.class"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        out.mkdir(exist_ok=True)
        subprocess.run(["javac", "-d", str(out), "-cp", class_path, str(source)], check=True)
    return f"{out}{os.pathsep}{class_path}"


@define
class Jvm:
    """A running Java program; its lines are collected as they are printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(factory=list)
    _changed: threading.Condition = field(factory=threading.Condition)
    _reader: threading.Thread | None = None

    def _read(self) -> None:
        stream = self.process.stdout
        if stream is None:
            return
        for line in stream:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def wait_for_line(self, beginning: str, timeout: float) -> str:
        """The first line with that beginning; fails with everything printed so far."""
        with self._changed:
            found = self._changed.wait_for(
                lambda: any(beginning in line for line in self.lines), timeout
            )
            if not found:
                pytest_text = "\n".join(self.lines[-40:])
                raise AssertionError(f"no line with {beginning!r} in {timeout} s:\n{pytest_text}")
            return next(line for line in self.lines if beginning in line)

    def finish(self, timeout: float) -> int:
        """Wait for the end of the program and of its output; the exit status."""
        status = self.process.wait(timeout)
        if self._reader is not None:
            self._reader.join(10)
        return status

    def table(self, kind: str) -> list[list[str]]:
        """The tab-separated lines that begin with `kind`, split, without that first word."""
        rows = [line.split("\t") for line in self.lines]
        return [row[1:] for row in rows if row[0] == kind]


@contextlib.contextmanager
def running(
    arguments: Sequence[str], *, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[Jvm]:
    """Start `java` with the arguments; on leaving the block only this process is ended."""
    process = subprocess.Popen(
        ["java", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    jvm = Jvm(process)
    jvm._reader = threading.Thread(target=jvm._read, name="jvm-output", daemon=True)
    jvm._reader.start()
    try:
        yield jvm
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        jvm._reader.join(10)
        if process.stdout is not None:
            process.stdout.close()


def client_program(
    version: str, program: str, *arguments: str
) -> contextlib.AbstractContextManager[Jvm]:
    """Run one of our Java programs against the unmodified client of that release."""
    path = compiled(program, jars(version, "rocketmq-client"))
    return running(["-Xmx256m", *QUIET, "-cp", path, program, *arguments])
