"""One zip holds everything that a worker needs besides PySpark and pyarrow."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from spark_connector.__main__ import main
from spark_connector.bundle import write_bundle

ROOT = Path(__file__).resolve().parents[3]

PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
from rocketmq_py import Message
from rocketmq_py.raw import QueueAccess, RawMessages
from spark_connector.servers.access import access_for
from spark_connector.options.read_options import read_options
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


PICKLED = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from spark_connector.source import RocketMQDataSource
sys.stdout.buffer.write(pickle.dumps(RocketMQDataSource({"nameServer": "h:1"})))
"""


def test_a_source_from_a_zip_makes_the_zip_importable_before_it_is_needed(tmp_path: Path) -> None:
    target = tmp_path / "bundle.zip"
    write_bundle(target)
    command = [sys.executable, "-c", PICKLED]
    sent = subprocess.run([*command, str(target)], cwd=tmp_path, capture_output=True, check=True)
    here = subprocess.run([*command, str(ROOT)], cwd=tmp_path, capture_output=True, check=True)
    assert sent.stdout.index(str(target).encode()) < sent.stdout.index(b"RocketMQDataSource")
    assert b"addsitedir" not in here.stdout
    made = pickle.loads(sent.stdout)  # noqa: S301 - pickled by this test
    sys.path.remove(str(target))
    assert made.options == {"nameServer": "h:1"}


def test_other_commands_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack"]) == 2
    assert "bundle OUT.zip" in capsys.readouterr().err


def test_a_zip_that_cannot_be_written_is_named_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "nowhere" / "r.zip"
    assert main(["bundle", str(target)]) == 2
    assert capsys.readouterr() == ("", f"cannot write {target}: No such file or directory\n")
