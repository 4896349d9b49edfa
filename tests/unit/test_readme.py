"""README promises a test of eight lines that runs: here it runs, as it stands there.

The tutorial's programs run in `tests/kit/test_tutorial.py`, by the same means.
"""

from __future__ import annotations

import ast
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import DefaultMQProducer, Message, RequestCode, ResponseCode, SendFailedError
from tests.pages import ROOT, blocks_of, pytest_options, python

BLOCKS = blocks_of("README.md")


def test_the_test_shown_first_passes_under_pytest(tmp_path: Path) -> None:
    shown = BLOCKS[0]
    (function,) = [n for n in ast.parse(shown).body if isinstance(n, ast.FunctionDef)]
    assert (function.end_lineno or 0) - function.lineno + 1 <= 8
    copy = tmp_path / "test_shown.py"
    copy.write_text(shown, encoding="utf-8")
    done = python(
        "-m", "pytest", "-q", *pytest_options(), "-p", "no:cacheprovider", str(copy), folder=ROOT
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


@pytest.mark.parametrize("block", BLOCKS[1:2])
def test_every_way_of_asking_that_is_shown_is_accepted(block: str) -> None:
    names: dict[str, object] = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own page
    assert names.keys() - {"__builtins__"}


def test_the_consumer_that_is_shown_runs_as_a_program_until_it_is_interrupted(
    tmp_path: Path,
) -> None:
    (block,) = [one for one in BLOCKS if "subscribe(" in one and "DefaultMQPushConsumer" in one]
    program = tmp_path / "consumer.py"
    with EmbeddedBroker(topics=["Orders"]) as broker:
        shown = block.replace("127.0.0.1:9876", broker.namesrv_addr)
        program.write_text(shown, encoding="utf-8")
        broker.send("Orders", b"no", tags="new")
        broker.send("Orders", b"yes", tags="paid")
        with subprocess.Popen(
            [sys.executable, "-u", str(program)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as running:
            assert running.stdout is not None
            try:
                first = running.stdout.readline()
                running.send_signal(signal.SIGINT)
                rest, errors = running.communicate(timeout=50)
            finally:
                running.kill()
    assert first.endswith(" b'yes'\n"), errors
    assert (rest, errors, running.returncode) == ("", "", 0)


def test_failed_sends_are_told_apart_as_shown() -> None:
    (block,) = [one for one in BLOCKS if "possibly_stored" in one]
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102 - our own page
    send, outbox = names["send_order"], list[Message]()
    with (
        EmbeddedBroker(topics=["Orders"], tcp=False) as broker,
        DefaultMQProducer(
            "shop", namesrv_addr=broker.namesrv_addr, send_msg_timeout=200
        ) as producer,
    ):
        assert send(producer, Message("Orders", b"x"), outbox)
        with pytest.raises(ValueError, match="never be sent"):
            send(producer, Message("Orders", b""), outbox)
        broker.faults.on(RequestCode.SEND_MESSAGE_V2).respond(ResponseCode.SYSTEM_BUSY).always()
        with pytest.raises(SendFailedError):
            send(producer, Message("Orders", b"refused"), outbox)
        assert outbox == []
        broker.faults.clear()
        broker.faults.on(RequestCode.SEND_MESSAGE_V2).drop().always()
        unsure = Message("Orders", b"unsure")
        assert send(producer, unsure, outbox) is None
        assert outbox == [unsure]


CRASHES = """
import os, sqlite3, sys

database = sqlite3.connect(sys.argv[2])

def crash(statement):
    if statement.startswith("DELETE"):
        os._exit(3)

with DefaultMQProducer("shop", namesrv_addr=sys.argv[1]) as producer:
    if sys.argv[3] == "crash":
        with database:
            database.execute("CREATE TABLE outbox (unique_key TEXT, topic TEXT, body BLOB)")
            for name in (b"one", b"two"):
                add(database, "Orders", name)
        database.set_trace_callback(crash)
    publish(database, producer)
"""


def test_the_outbox_that_is_shown_sends_again_under_the_same_id_after_a_crash(
    tmp_path: Path,
) -> None:
    (block,) = [one for one in BLOCKS if "INSERT INTO outbox" in one]
    program = tmp_path / "outbox.py"
    program.write_text(f"{block}\nfrom rocketmq_py import DefaultMQProducer\n{CRASHES}")
    database = str(tmp_path / "shop.db")
    with EmbeddedBroker(topics=["Orders"]) as broker:
        arguments = (str(program), broker.namesrv_addr, database)
        assert python(*arguments, "crash", folder=ROOT).returncode == 3
        assert [one.body for one in broker.messages.in_topic("Orders")] == [b"one"]
        done = python(*arguments, "go on", folder=ROOT)
        assert done.returncode == 0, done.stdout
        stored = [(one.body, one.msg_id) for one in broker.messages.in_topic("Orders")]
    assert sorted(body for body, _ in stored) == [b"one", b"one", b"two"]
    assert len(set(stored)) == 2
    with closing(sqlite3.connect(database)) as left:
        assert left.execute("SELECT * FROM outbox").fetchall() == []


@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_parses(block: str) -> None:
    assert ast.parse(block).body
