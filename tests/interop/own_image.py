"""An image of RocketMQ made from what this machine has: nothing is pulled.

A Java run time that `jlink` cuts down, the shared libraries that it needs, a shell, and the jars
of a release. Folder, entry points, user and variables are named as in the official image, so that
a container that runs on this one runs on that one. `tests/interop/container_engine.py` says where
it is loaded.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from embedded_broker.kit.maven import release
from embedded_broker.kit.process import OPENED
from tests.interop.java_tools import CACHE

NEEDED = ("jlink", "ldd", "mvn")
PROGRAMS = ("/bin/sh", "/bin/sleep")
USER_ID = 3000
JAVA = "opt/java"
# What the servers use of the JDK, by the loudest of their complaints: management beans, SQL types
# (fastjson), XML and java.beans (logging), unsafe memory.
MODULES = (
    "java.desktop,java.logging,java.management,java.naming,java.security.sasl,java.sql,"
    "java.xml,jdk.crypto.ec,jdk.management,jdk.unsupported,java.instrument,java.net.http"
)
STARTED = {
    "mqnamesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "mqbroker": "org.apache.rocketmq.broker.BrokerStartup",
}
SCRIPT = """#!/bin/sh
export ROCKETMQ_HOME=$(cd .. && pwd)
exec /{java}/bin/java -Xms2g -Xmx2g $JAVA_OPT_EXT \\
  {opened} -cp "$ROCKETMQ_HOME/lib/*" {main} "$@"
"""
LOGBACK = '<configuration><root level="OFF"/></configuration>\n'


def changes(version: str) -> list[str]:
    """What the image says of itself."""
    home = f"/home/rocketmq/rocketmq-{version}"
    return [
        f"ENV ROCKETMQ_VERSION={version}",
        f"ENV ROCKETMQ_HOME={home}",
        f"ENV PATH=/{JAVA}/bin:/bin",
        "ENV HOME=/home/rocketmq",
        f"WORKDIR {home}/bin",
        f"USER {USER_ID}",
    ]


def root_file_system(version: str) -> Path:
    """A tar file with everything in the image; made once."""
    done = CACHE / f"image-{version}.tar"
    if done.exists():
        return done
    java = java_run_time()
    part = done.with_suffix(".part")
    with tarfile.open(part, "w") as tar:
        for name, mode in (("tmp", 0o1777), ("bin", 0o755), ("etc", 0o755), ("dev", 0o755)):
            folder(tar, name, mode=mode)
        text(tar, "etc/passwd", f"rocketmq:x:{USER_ID}:{USER_ID}::/home/rocketmq:/bin/sh\n")
        text(tar, "etc/group", f"rocketmq:x:{USER_ID}:\n")
        for program in PROGRAMS:
            tar.add(os.path.realpath(program), program.lstrip("/"))
        tar.add(java, JAVA)
        for library in libraries(java):
            tar.add(os.path.realpath(library), library.lstrip("/"))
        add_rocketmq(tar, version)
    part.rename(done)
    return done


def add_rocketmq(tar: tarfile.TarFile, version: str) -> None:
    """The jars and the two entry points, owned by the user that runs them."""
    home = f"home/rocketmq/rocketmq-{version}"
    for name in ("home/rocketmq", home, f"{home}/bin", f"{home}/conf", f"{home}/lib"):
        folder(tar, name, owner=USER_ID)
    for jar in sorted(
        release(version, "rocketmq-namesrv", "rocketmq-broker", cache=CACHE).iterdir()
    ):
        tar.add(jar, f"{home}/lib/{jar.name}")
    for name, main in STARTED.items():
        text(
            tar,
            f"{home}/bin/{name}",
            SCRIPT.format(java=JAVA, main=main, opened=" ".join(OPENED)),
            mode=0o755,
        )
        text(tar, f"{home}/conf/logback_{name.removeprefix('mq')}.xml", LOGBACK)


def java_run_time() -> Path:
    """A Java of a few dozen megabytes, cut out of the machine's JDK; made once."""
    home = CACHE / "image-java"
    if not home.exists():
        part = home.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        cut = ["--strip-debug", "--no-man-pages", "--no-header-files"]
        command = ["jlink", "--add-modules", MODULES, *cut, "--output", str(part)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        part.rename(home)
    return home


def libraries(java: Path) -> list[str]:
    """Shared libraries of the machine that the shell and Java load, the loader included."""
    programs = [*PROGRAMS, str(java / "bin" / "java"), *map(str, java.rglob("*.so"))]
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"(?:=> |^\t)(/\S+) \(0x", listed, re.MULTILINE)
    return sorted({path for path in found if not path.startswith(str(java))})


def folder(tar: tarfile.TarFile, name: str, *, mode: int = 0o755, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = mode
    entry.uid = entry.gid = owner
    tar.addfile(entry)


def text(tar: tarfile.TarFile, name: str, content: str, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    data = content.encode()
    entry.size = len(data)
    entry.mode = mode
    tar.addfile(entry, io.BytesIO(data))
