"""A Spark driver as a process of its own: runs what it is told to, one job after the other.

Started with the session's settings as JSON; then each line of standard input names a function of
``jobs.py`` and its arguments, and each line of standard output is its result or error. Imports
nothing but PySpark and the standard library, so that it runs where nothing else is installed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback


def main() -> None:
    # What Spark and Java print goes to standard error: the answers have standard output alone.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from pyspark.sql import SparkSession

    settings = json.loads(sys.argv[1])
    builder = SparkSession.builder
    remote = settings.pop("remote", None)
    if remote is not None:
        builder = builder.remote(remote)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    jobs = importlib.import_module("jobs")
    answers.write('{"result": "ready"}\n')
    answers.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"result": getattr(jobs, asked["job"])(spark, **asked["arguments"])}
        except Exception as error:  # noqa: BLE001 - the test hears of it
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(f"{json.dumps(answer)}\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
