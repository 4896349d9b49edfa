"""What a forked child may do with the clients of its parent: nothing, and it is told so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_py import DefaultMQProducer, DefaultMQPushConsumer, QueueAccess
from tests.unit.rocketmq_py.consumer.inbox import Inbox
from tests.unit.rocketmq_py.scripted import ScriptedCluster

PROGRAM = "tests.unit.rocketmq_py.client.forked_program"


@pytest.mark.case("T99")
@pytest.mark.parametrize(
    ("kind", "uses", "others"),
    [
        ("producers", 11, set()),
        ("consumers", 10, {"is_running False"}),
        ("callers", 6, set()),
        ("ons", 5, {"is_started False False"}),
    ],
)
def test_every_use_in_a_forked_child_is_refused_by_name(
    kind: str, uses: int, others: set[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", PROGRAM, kind],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    lines = done.stdout.splitlines()
    refused = [line for line in lines if line.endswith(" ForkedClientError")]
    assert {*lines} - {*refused} == {"threads 0", "goodbyes 0", *others}
    assert (len(refused), done.stderr) == (uses, "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_that_was_only_made_before_a_fork_may_be_started_behind_it(
    cluster: ScriptedCluster,
) -> None:
    producer = DefaultMQProducer("P", namesrv_addr=cluster.namesrv_addr)
    consumer = DefaultMQPushConsumer("G", namesrv_addr=cluster.namesrv_addr)
    consumer.subscribe("T")
    consumer.register_message_listener(Inbox())
    access = QueueAccess(namesrv_addr=cluster.namesrv_addr)
    child = os.fork()
    if child == 0:
        try:
            with producer, consumer, access:
                os._exit(0 if consumer.is_running and access.read_queues("T") else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
