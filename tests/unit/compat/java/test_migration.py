"""The programs of MIGRATION.md for Java and ctypes programs run as they stand there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.java.names import FORWARDED
from embedded_broker import EmbeddedBroker, VirtualClock
from tests.pages import NAME, ROOT, files_of

PAGE = (ROOT / "MIGRATION.md").read_text(encoding="utf-8")
FILES = {
    name: text
    for name, text in files_of("MIGRATION.md").items()
    if name.startswith(("java_", "ctypes_"))
}
CONSUMERS = {name: text for name, text in FILES.items() if "consumer" in name}
ADDRESS = "127.0.0.1:9876"
PRINTED = {
    "java_producer.py": r"[0-9A-F]{32}\nstored SEND_OK\n",
    "java_producer_in_python.py": r"[0-9A-F]{32}\nstored SEND_OK\n",
    "java_transaction.py": r"book alice\nLocalTransactionState.COMMIT_MESSAGE\nqueue 3\n",
    "ctypes_producer.py": r"SEND_OK [0-9A-F]{32} 0\n",
    "ctypes_transaction.py": r"book b'42'\nCOMMIT_MESSAGE\n",
}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    topics = ["TimerTopic", "Transfers", "TopicTest"]
    with EmbeddedBroker(clock=VirtualClock(), tcp=False, topics=topics) as started:
        yield started


@pytest.mark.parametrize("name", PRINTED)
def test_a_program_that_sends_prints_what_it_says(
    name: str, broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FILES[name].replace(ADDRESS, broker.namesrv_addr)
    exec(compile(text, name, "exec"), {"__name__": name})  # noqa: S102 - our own page
    assert re.fullmatch(PRINTED[name], capsys.readouterr().out)


@pytest.mark.parametrize("name", ["java_producer.py", "java_producer_in_python.py"])
def test_the_message_of_a_producer_waits_for_its_time(name: str, broker: EmbeddedBroker) -> None:
    text = FILES[name].replace(ADDRESS, broker.namesrv_addr)
    exec(compile(text, name, "exec"), {"__name__": name})  # noqa: S102 - our own page
    broker.clock.advance(9.9)
    assert broker.topics["TimerTopic"].count() == 1
    broker.clock.advance(0.2)
    broker.wait_for(lambda _: broker.topics["TimerTopic"].count() == 2)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", CONSUMERS)
def test_a_program_that_receives_prints_until_it_is_interrupted(name: str, tmp_path: Path) -> None:
    topic = "TopicTest" if name.startswith("ctypes") else "TimerTopic"
    program = tmp_path / name
    with EmbeddedBroker(topics=[topic]) as broker:
        program.write_text(CONSUMERS[name].replace(ADDRESS, broker.namesrv_addr), encoding="utf-8")
        sent = broker.send(topic, b"Hello")
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
    assert first.startswith(sent.msg_id), errors
    assert "Hello" in first
    assert (rest, errors, running.returncode) == ("", "", 0)


def test_every_program_of_both_sections_is_run() -> None:
    assert PRINTED.keys() | CONSUMERS.keys() == FILES.keys()
    begin = PAGE.index("## From Java")
    end = PAGE.find("\n## ", PAGE.index("## From the ctypes client"))
    blocks = re.findall(r"```python\n(.*?)```", PAGE[begin : end if end > 0 else None], re.DOTALL)
    assert [block for block in blocks if not NAME.match(block)] == []
    assert len(blocks) == len(FILES)


def test_the_page_tells_how_many_classes_the_table_has() -> None:
    java_classes = [name for name in FORWARDED if not name.endswith("Names")]
    assert f"is the whole table: {len(java_classes)} classes" in PAGE


def test_a_module_of_the_project_that_hides_the_package_is_told_as_the_page_says(
    tmp_path: Path,
) -> None:
    (tmp_path / "compat.py").write_text("", encoding="utf-8")
    (tmp_path / "program.py").write_text("import compat.java\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stderr.splitlines()[-1]
    assert f"`{told}`" in PAGE.replace("\n", " ")
