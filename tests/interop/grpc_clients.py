"""The official gRPC clients, which reach a broker through a proxy: how they are made ready."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from embedded_broker.kit.backend import BackendError
from embedded_broker.kit.maven import fetched
from tests.interop.java_tools import CACHE, QUIET, compiled
from tests.interop.scenarios import Client

JAVA = "5.0.8"
PYTHON = "5.1.2"
JAVA_JARS = f"org.apache.rocketmq:rocketmq-client-java:{JAVA}"
PROGRAM = Path(__file__).parent / "python" / "main.py"

SCENARIOS = (
    "sync",
    "async",
    "orderly",
    "tags",
    "sql",
    "retry",
    "dead_letters",
    "transaction",
    "timers",
    "recall",
    "pop",
    "invisible_time",
)
KINDS = {
    "orderly": "FIFO",
    "dead_letters": "FIFO",
    "transaction": "TRANSACTION",
    "timers": "DELAY",
    "recall": "DELAY",
}
"""The proxy refuses what is of another kind than its topic; the others are NORMAL."""
ORDERLY = [scenario for scenario, kind in KINDS.items() if kind == "FIFO"]
"""Their groups are served in order."""


def java() -> list[str]:
    """The client in Java; it logs below its home."""
    jars = fetched(f"rocketmq-client-java-{JAVA}", JAVA_JARS, cache=CACHE)
    path = compiled("GrpcScenarios", str(jars / "*"))
    return ["java", "-Xmx256m", *QUIET, f"-Duser.home={jars.parent}", "-cp", path, "GrpcScenarios"]


def python() -> list[str]:
    """The client in Python, in an environment of its own; it logs below its home."""
    home = CACHE / f"rocketmq-python-client-{PYTHON}"
    home.mkdir(parents=True, exist_ok=True)
    runs, done = home / "bin" / "python", home / "complete"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            pip = [str(runs), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            try:
                subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
                subprocess.run([*pip, f"rocketmq-python-client=={PYTHON}"], check=True)
            except subprocess.CalledProcessError as error:
                raise BackendError(
                    f"rocketmq-python-client {PYTHON} is not there: {error}"
                ) from None
            done.touch()
    return ["env", f"HOME={home}", str(runs), str(PROGRAM)]


CLIENTS = (
    Client(f"gRPC Java {JAVA}", java, SCENARIOS),
    Client(f"gRPC Python {PYTHON}", python, SCENARIOS),
)
