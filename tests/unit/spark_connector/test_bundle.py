"""One zip holds everything that a worker needs besides PySpark and pyarrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spark_connector.__main__ import main

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from rocketmq_py import Message, QueueAccess, RawMessages
from spark_connector.access import access_for
from spark_connector.options import read_options
options = read_options({"nameServer": "h:1", "subscribe": "T"}, streaming=False)
access = access_for(options.connection)
assert "bundle.zip" in sys.modules["rocketmq_py"].__file__
print("works")
"""


def test_the_zip_works_where_nothing_else_is_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "bundle.zip"
    assert main(["bundle", str(target)]) == 0
    assert "files, for --py-files" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROBE, str(target)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("works\n", 0), done.stderr


def test_other_commands_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack"]) == 2
    assert "bundle OUT.zip" in capsys.readouterr().err
