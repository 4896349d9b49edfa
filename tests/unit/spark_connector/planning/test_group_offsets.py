"""A group's offset is kept, also by a broker that meets the group for the first time."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from rocketmq_py import MQBrokerException, QueueAccess
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from spark_connector.planning.group_offsets import store_group_offset


def test_a_group_that_the_broker_has_not_met_is_introduced_once() -> None:
    with (
        EmbeddedBroker(topics=["T"]) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        queue = access.read_queues("T")[0]
        for offset in (3, 4):
            store_group_offset(access, "G", queue, offset)
            assert access.group_offset("G", queue) == offset
        assert len(broker.journal.requests(code=RequestCode.PULL_MESSAGE)) == 1


def test_other_refusals_are_passed_on() -> None:
    with (
        EmbeddedBroker(topics=["T"], config={"autoCreateSubscriptionGroup": False}) as broker,
        QueueAccess(namesrv_addr=broker.namesrv_addr) as access,
    ):
        queue = access.read_queues("T")[0]
        with pytest.raises(MQBrokerException, match="26"):
            store_group_offset(access, "G", queue, 3)
        refused = broker.faults.on(RequestCode.UPDATE_CONSUMER_OFFSET)
        refused.respond(ResponseCode.NO_PERMISSION)
        with pytest.raises(MQBrokerException, match="16"):
            store_group_offset(access, "G", queue, 3)
