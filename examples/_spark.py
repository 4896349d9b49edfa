"""What the Spark examples have in common: a local session, and what to do without Spark.

Where PySpark 4, pyarrow, numpy or Java is missing, an example says so and is skipped.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from _needs import missing_packages, run_unless

from rocketmq_py.errors import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent


def run_with_spark(program: Callable[[], int]) -> int:
    """Run an example if this machine can, and return its exit status."""
    missing = missing_packages("pyspark", "pyarrow", "numpy")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing.append("java")
    # A broker on a virtual clock warns programs that compute times by the machine's clock. The
    # examples use the broker's clock, so the warning does not concern them.
    logging.getLogger("embedded_broker").setLevel(logging.ERROR)
    remedy = f"{how_to_install('spark')}. Java 17 or 21 must be on PATH"
    return run_unless(missing, remedy, program)


@contextmanager
def local_spark(name: str, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark with two threads and register the data source; stop Spark at the end."""
    # Workers are other processes: the same Python, and the packages beside this folder.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    from pyspark.sql import SparkSession

    import spark_connector

    with tempfile.TemporaryDirectory() as warehouse:
        spark = (
            SparkSession.builder.master("local[2]")
            .appName(name)
            .config("spark.ui.enabled", "false")
            # An example lives for seconds: thorough compilation would cost more than it brings.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", warehouse)
            .config("spark.log.level", "ERROR")
            .config(map=dict(settings or {}))
            .getOrCreate()
        )
        spark_connector.register(spark)
        try:
            yield spark
        finally:
            spark.stop()


def checked(*facts: tuple[str, object, object]) -> int:
    """Compare each (what, expected, found), print those that differ and return the exit status."""
    wrong = [(what, want, got) for what, want, got in facts if want != got]
    for what, want, got in wrong:
        print(f"FAILED  {what}: {want} expected, {got} found")
    if not wrong:
        print("OK      " + "; ".join(f"{what}: {want}" for what, want, _ in facts))
    return 1 if wrong else 0
