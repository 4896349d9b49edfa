"""Log lines of workers have a time and a level, unless somebody else writes them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

PROGRAM = """
import logging, os, sys
os.environ |= dict.fromkeys(sys.argv[1:], "set")
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


def told(*variables: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *variables]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize("variable", ["SPARK_PYTHON_RUNTIME", "PYTHON_WORKER_FACTORY_SECRET"])
def test_a_worker_writes_time_and_level_until_logging_is_set_up(variable: str) -> None:
    first, second, *others = told(variable).splitlines()
    assert re.fullmatch(TIME + " WARNING spark_connector: one 1", first)
    assert re.fullmatch(TIME + " ERROR rocketmq_py.client: two", second)
    assert others == ["bare", "mine three"]


def test_no_other_process_is_changed() -> None:
    assert told() == "one 1\ntwo\nbare\nmine three\n"
