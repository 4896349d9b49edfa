"""A real standalone cluster, a Connect server and drivers, each a process of its own.

All of them are started from the installed PySpark, on loopback and free ports, with every file in
a temporary folder, and end with their process group when the test does. What a driver can do is in
``driver/jobs.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
DRIVER = Path(__file__).resolve().parent / "driver"
START_S = 120
JOB_S = 150
END_S = 20
KEPT_LINES = 200
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
# Short lives: compiling well costs more than it brings, and parallel collectors fight for cores.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SESSION = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_START,
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
ON_CLUSTER = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
}


class Process:
    """A program in a process group of its own, whose standard error is read as it comes."""

    def __init__(self, command: list[str], env: Mapping[str, str], folder: Path) -> None:
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._changed = threading.Condition()
        self._ended = False
        self.popen = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.popen.stderr or ():
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def told(self) -> str:
        """The last lines of its standard error."""
        with self._changed:
            return "".join(self._lines)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait for a line of standard error."""

        def found() -> re.Match[str] | None:
            return next((hit for line in self._lines if (hit := re.search(pattern, line))), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, START_S)
            hit = found()
        if hit is None:
            # In a note, for whoever judges the error by its text, as the skip for an older Spark
            # does: an earlier refusal in the log is not what failed here.
            error = RuntimeError(f"{self.popen.args!r} did not say {pattern!r}")
            error.add_note(self.told())
            raise error
        return hit

    def kill(self) -> None:
        """End the whole group at once, as a machine that is switched off."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(END_S)

    def end(self) -> None:
        """Ask it to end; after some seconds, and for what it has left behind, `kill`."""
        self.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(END_S)
        self.kill()
        self.close()

    def close(self) -> None:
        """Close the pipes of a process that has ended."""
        self._reader.join(END_S)
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def environment(folder: Path, python: str, path: tuple[Path, ...]) -> dict[str, str]:
    """The environment of a Spark process: which Python its workers run, and what these can see."""
    ours = ("PYTHON", "PYSPARK", "SPARK")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    spark = spark_home().parent
    if not spark.is_relative_to(sys.prefix):  # another Spark than the environment's is tried
        path = (spark, *path)
    return kept | {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
    }


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def spark_class() -> str:
    return str(spark_home() / "bin" / "spark-class")


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """A master and two workers of two cores each; yields the master's URL.

    Their environment holds no Python path: what executors can see is said by each driver.
    """
    env = environment(folder, sys.executable, ())
    del env["PYTHONPATH"]
    place = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        master = Process([spark_class(), MASTER, *place], env, folder)
        stack.callback(master.end)
        url = master.wait_for(r"Starting Spark master at (spark://\S+)")[1]
        sizes = ["--cores", "2", "--memory", "2g"]
        workers = []
        for name in ("worker-1", "worker-2"):
            where = ["--work-dir", str(folder / name)]
            command = [spark_class(), WORKER, *place, *sizes, *where, url]
            workers.append(Process(command, env, folder))
            stack.callback(workers[-1].end)
        for worker in workers:
            worker.wait_for("Successfully registered with master")
        yield url


@contextlib.contextmanager
def connect_server(folder: Path, python: str, path: tuple[Path, ...]) -> Iterator[str]:
    """A Connect server on two cores; yields its URL."""
    given = SESSION | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.log.level": "INFO",
    }
    settings = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    submit = [spark_class(), "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]"]
    command = [*submit, "--class", CONNECT, *settings, "spark-internal"]
    env = environment(folder, python, path) | {"SPARK_DAEMON_MEMORY": "768m"}
    server = Process(command, env, folder)
    try:
        port = server.wait_for(r"Spark Connect server started at: \S*?:(\d+)")[1]
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.end()


class Driver:
    """A driver process; `run` has it do one of the jobs and returns the result."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str],
        *,
        python: str = sys.executable,
        path: tuple[Path, ...] = (ROOT,),
        submit: str = "",
    ) -> None:
        env = environment(folder, python, (DRIVER, *path))
        if submit:
            env["PYSPARK_SUBMIT_ARGS"] = f"{submit} pyspark-shell"
        given = dict(settings)
        if "remote" not in given:
            given = SESSION | {"spark.sql.warehouse.dir": str(folder / "warehouse")} | given
        command = [python, str(DRIVER / "program.py"), json.dumps(given)]
        self._process = Process(command, env, folder)
        self._thread = ThreadPoolExecutor(1)
        try:
            self._thread.submit(self._answer).result(START_S)
        except BaseException:
            self.kill()
            raise

    def begin(self, job: str, **arguments: Any) -> Future[Any]:
        """Ask for a job; the future holds its result or `DriverError`."""
        return self._thread.submit(self._ask, job, arguments)

    def run(self, job: str, **arguments: Any) -> Any:
        """Have a job done; raises `DriverError` with the text of what it raised."""
        return self.begin(job, **arguments).result(JOB_S)

    def said(self, pattern: str) -> re.Match[str]:
        """Wait for a line on its standard error."""
        return self._process.wait_for(pattern)

    def _ask(self, job: str, arguments: dict[str, Any]) -> Any:
        stdin = self._process.popen.stdin
        assert stdin is not None
        stdin.write(f"{json.dumps({'job': job, 'arguments': arguments})}\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        stdout = self._process.popen.stdout
        assert stdout is not None
        line = stdout.readline()
        if not line:
            raise DriverError(f"the driver ended:\n{self._process.told()}")
        answer = json.loads(line)
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer["result"]

    def kill(self) -> None:
        """End driver and JVM as a machine that is switched off."""
        self._process.kill()
        self._thread.shutdown()
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stdin = self._process.popen.stdin
        if stdin is not None:
            with contextlib.suppress(OSError):
                stdin.close()  # its loop ends, and the session with it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.popen.wait(END_S)
        self.kill()


class DriverError(Exception):
    """What a job raised in the driver."""


def bare_python(folder: Path, packages: tuple[str, ...]) -> str:
    """Make an environment that sees only these installed packages; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        installed = Path(spec.origin).parent
        (site / package).symlink_to(installed)
        libraries = installed.with_name(f"{package}.libs")
        if libraries.exists():
            (site / libraries.name).symlink_to(libraries)
    return str(folder / "bin" / "python")


def broken_module(folder: Path) -> Path:
    """A folder where Spark finds our discovery module, and one of others that cannot be imported.

    As if the wheel were installed beside a package that is broken.
    """
    ours = folder / "pyspark_rocketmq"
    ours.mkdir(parents=True)
    shutil.copy(ROOT / "spark_connector" / "discovery.py", ours / "__init__.py")
    (folder / "pyspark_x.py").write_text("import a_module_that_nobody_has\n", encoding="utf-8")
    return folder
