"""The programs for Spark that README shows run, as they stand there."""

from __future__ import annotations

import re
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip(
    "pyspark", minversion="4.2", reason="PySpark 4.2 is not installed (extra spark)"
)
if shutil.which("java") is None:
    pytest.skip("no java on this machine", allow_module_level=True)

from embedded_broker import EmbeddedBroker, VirtualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_a_read_and_a_scheduled_write_work_as_shown(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    broker.topics.create("Reminders")
    broker.topics.create("Orders")
    broker.send("Orders", b"one")
    given = {"spark": spark, "address": broker.namesrv_addr}
    blocks = [one for one in BLOCKS if ("rocketmq" in one and "spark" in one) or "reminders" in one]
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), given)  # noqa: S102 - our own page
    assert isinstance(broker.clock, VirtualClock)
    broker.clock.advance(timedelta(days=2) - timedelta(seconds=1))
    assert broker.messages.in_topic("Reminders") == []
    broker.clock.advance(2)
    assert [message.body for message in broker.messages.in_topic("Reminders")] == [b"one"]
