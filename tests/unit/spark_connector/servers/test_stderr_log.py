"""Log lines of workers have a time and a level, unless somebody else writes them."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import logging, os, sys
os.environ["SPARK_PYTHON_RUNTIME"] = sys.argv[1]
from spark_connector.servers.stderr_log import set_up
set_up(); set_up()
logging.getLogger("spark_connector").warning("one %d", 1)
logging.getLogger("rocketmq_py.client").error("two")
logging.getLogger("spark_connector").info("unseen")
logging.getLogger("others").warning("bare")
logging.basicConfig(format="mine %(message)s")
logging.getLogger("spark_connector").warning("three")
"""
TIME = r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d"


def told(runtime: str) -> str:
    command = [sys.executable, "-c", PROGRAM, runtime]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def test_a_worker_writes_time_and_level_until_logging_is_set_up() -> None:
    import re

    first, second, *others = told("PYTHON_WORKER").splitlines()
    assert re.fullmatch(TIME + " WARNING spark_connector: one 1", first)
    assert re.fullmatch(TIME + " ERROR rocketmq_py.client: two", second)
    assert others == ["bare", "mine three"]


def test_no_other_process_is_changed() -> None:
    assert told("") == "one 1\ntwo\nbare\nmine three\n"
