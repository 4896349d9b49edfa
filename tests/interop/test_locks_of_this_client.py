"""Queue locks of this client on a real 5.3.3 broker and on ours: both lend alike."""

from __future__ import annotations

from rocketmq_py.clock import monotonic
from rocketmq_py.consumer.core.locks import QueueLocks
from tests.client_instances import started_instance
from tests.interop.conftest import OnBoth
from tests.waiting import until

TOPIC, GROUP = "LocksOfPython", "LocksOfPythonGroup"


def test_a_queue_is_lent_to_one_member_until_it_is_given_back(on_both: OnBoth) -> None:
    with (
        on_both(TOPIC) as namesrv,
        started_instance(namesrv, instance_name="one") as first,
        started_instance(namesrv, instance_name="two") as second,
    ):
        one, two = QueueLocks(first, GROUP), QueueLocks(second, GROUP)
        for instance in (first, second):
            instance.routes.update(TOPIC)
        queues = frozenset(first.routes.subscribe_queues(TOPIC) or ())
        mine, *others = sorted(queues)
        assert one.lock([mine]) == {mine}
        assert two.lock(queues) == set(others)
        two.unlock(mine)  # not its own
        assert one.lock(queues) == {mine}
        assert one.is_held(mine, monotonic())
        one.unlock(mine)
        until(lambda: two.lock(queues) == queues)
        two.close(0)
        until(lambda: one.lock(queues) == queues)
