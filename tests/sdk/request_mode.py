"""How a group gets the messages of a topic, where brokers assign the queues: it pulls, or pops."""

from __future__ import annotations

import pytest

from rocketmq_py import DefaultMQAdminExt, MQBrokerException

NOT_SUPPORTED = 3


def set_mode(namesrv_addr: str, topic: str, group: str, mode: str, *, namespace: str = "") -> None:
    """Set it at every broker; the test is skipped on brokers of a version that knows no pops."""
    with DefaultMQAdminExt(namespace=namespace) as admin:
        cluster = admin.examine_broker_cluster_info(namesrv_addr)
        for one in cluster.broker_addr_table.values():
            try:
                admin.set_message_request_mode(one.broker_addrs[0], topic, group, mode)
            except MQBrokerException as error:
                if error.code != NOT_SUPPORTED:
                    raise
                pytest.skip(f"RocketMQ has pops since 5.0: {error}")
