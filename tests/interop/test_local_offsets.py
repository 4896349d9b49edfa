"""The file of a broadcasting consumer's offsets: Java clients and this one take turns with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.consumer.core.file_offsets import OffsetFile
from rocketmq_py.send_result import MessageQueue
from tests.interop.java_tools import client_program
from tests.waiting import HANG_S

GROUP, TOPIC = "GroupOfAll", "%RETRY%\u00fcber"
QUEUE, OTHER = MessageQueue(TOPIC, "broker-a", 1), MessageQueue("Other", "broker-b", 0)
BEYOND_32_BITS = 5_000_000_000


def java(version: str, *arguments: str) -> tuple[str, int]:
    """Run the program; gives the client id and the offset that it has read."""
    with client_program(version, "LocalOffsets", *arguments) as program:
        assert program.finish(HANG_S) == 0, program.lines
    ((client_id,),) = program.table("CLIENT")
    ((read,),) = program.table("READ")
    return client_id, int(read)


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_a_java_client_and_this_one_go_on_from_each_others_offsets(
    version: str, tmp_path: Path
) -> None:
    client_id, read = java(version, str(tmp_path), GROUP, TOPIC, "7")
    assert read == -1
    file = OffsetFile(tmp_path, client_id, GROUP)
    assert file.read() == {QUEUE: 7}
    file.write({QUEUE: BEYOND_32_BITS, OTHER: 0})
    assert java(version, str(tmp_path), GROUP, TOPIC, "3") == (client_id, BEYOND_32_BITS)
    assert file.read() == {QUEUE: 3, OTHER: 0}
