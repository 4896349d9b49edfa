"""Java programs of the interop tests: compiled here, run with the jars of a release.

Everything is kept below `.cache/interop` of the checkout, so that the second run is quick.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from embedded_broker.kit.jvm import Jvm, running
from embedded_broker.kit.maven import release

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "interop"
SOURCES = Path(__file__).parent / "java"
NEEDED = ("java", "javac", "mvn")
QUIET = ["-Drocketmq.client.logUseSlf4j=true", "-XX:+UseSerialGC"]
C1_ONLY = "-XX:TieredStopAtLevel=1"
QUICK = [*QUIET, C1_ONLY]
"""For a program that ends soon: what the second compiler does for it, it hardly uses."""


def missing_tools() -> list[str]:
    """Programs that the interop tests need and this machine lacks."""
    return [tool for tool in NEEDED if shutil.which(tool) is None]


def jars(version: str, *artifacts: str) -> str:
    """Class path with the artifacts of one RocketMQ release and all they depend on."""
    return str(release(version, *artifacts, cache=CACHE) / "*")


def compiled(program: str, class_path: str, *also: str) -> str:
    """Compile one program of `java/` against the class path; returns the path to run it with.

    `also` are jars that it needs besides.
    """
    source = SOURCES / f"{program}.java"
    out = Path(class_path).parent.parent / "classes"
    target = out / f"{program}.class"
    path = os.pathsep.join((class_path, *also))
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        out.mkdir(exist_ok=True)
        command = ["javac", f"-J{C1_ONLY}", "-nowarn", "-sourcepath", str(SOURCES), "-d", str(out)]
        subprocess.run([*command, "-cp", path, str(source)], check=True)
    return f"{out}{os.pathsep}{path}"


def client_program(
    version: str,
    program: str,
    *arguments: str,
    artifact: str = "rocketmq-client",
    options: Sequence[str] = QUICK,
) -> contextlib.AbstractContextManager[Jvm]:
    """Run one of our Java programs against the unmodified client of that release."""
    path = compiled(program, jars(version, artifact))
    return running(["-Xmx256m", *options, "-cp", path, program, *arguments])
