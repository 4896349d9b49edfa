"""How a transaction ends, asked for by values."""

from __future__ import annotations

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.core.refusals import Reason, Refused
from embedded_broker.core.send_values import Incoming
from embedded_broker.core.transactions.ending import Ending, EndTransactions
from embedded_broker.lifecycle.parts import BrokerParts
from rocketmq_py.protocol.properties import encode_properties
from tests.unit.embedded_broker.conftest import StartBroker
from tests.unit.embedded_broker.peers import OWNER, Peer


def endings_of(parts: BrokerParts) -> EndTransactions:
    return EndTransactions(env=parts, transactions=parts.transactions, produce=parts.send.produce)


def half_of(parts: BrokerParts, **properties: str) -> Ending:
    """Store a half message of group g; give the commit that names it."""
    text = encode_properties({"TRAN_MSG": "true", "PGROUP": "g", **properties}).decode()
    with parts.door:
        (outcome,) = parts.send.produce([Incoming("T", b"x", text)], Peer())
    return Ending("g", outcome.commit_log_offset, outcome.queue_offset, True, False)


def end(parts: BrokerParts, ending: Ending) -> None:
    with parts.door:
        endings_of(parts).end(ending, OWNER)


def delivered(broker: EmbeddedBroker) -> int:
    store = broker._parts().store
    return sum(store.max_offset("T", queue_id) for queue_id in range(4))


@pytest.fixture
def parts(broker: EmbeddedBroker) -> BrokerParts:
    broker.topics.create("T", queues=4)
    return broker._parts()


def test_a_commit_delivers_and_a_rollback_does_not(
    broker: EmbeddedBroker, parts: BrokerParts
) -> None:
    commit, rollback = half_of(parts), half_of(parts)._replace(commits=False)
    assert parts.transactions.count() == 2
    end(parts, commit)
    assert (delivered(broker), parts.transactions.count()) == (1, 1)
    end(parts, rollback)
    assert (delivered(broker), parts.transactions.count()) == (1, 0)


@pytest.mark.parametrize(
    ("wrong", "piece"),
    [
        ({"commit_log_offset": 1}, "no half message at commit log offset 1"),
        ({"producer_group": "h"}, "The producer group wrong: h"),
        ({"queue_offset": 5}, "offset wrong: 5"),
    ],
)
def test_who_names_another_half_message_ends_nothing(
    broker: EmbeddedBroker, parts: BrokerParts, wrong: dict[str, object], piece: str
) -> None:
    ending = half_of(parts)
    with pytest.raises(Refused) as refused:
        end(parts, ending._replace(**wrong))  # type: ignore[arg-type]
    assert refused.value.reason is Reason.FAILED
    assert piece in refused.value.remark
    assert (delivered(broker), parts.transactions.count()) == (0, 1)


def test_after_its_own_immunity_a_producer_waits_until_it_is_asked(
    broker: EmbeddedBroker, parts: BrokerParts
) -> None:
    ending = half_of(parts, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    broker.clock.advance(60)
    end(parts, ending)
    ending = half_of(parts, CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    broker.clock.advance(60.001)
    with pytest.raises(Refused, match="immunity of 60000 ms") as refused:
        end(parts, ending)
    assert refused.value.reason is Reason.ILLEGAL_OPERATION
    end(parts, ending._replace(was_asked=True))
    assert delivered(broker) == 2


def test_a_second_commit_delivers_again_unless_that_is_switched_off(
    start_broker: StartBroker,
) -> None:
    for once, expected in ((False, 2), (True, 1)):
        broker = start_broker(topics=["T"], config={"transactionEndOnce": once})
        parts = broker._parts()
        ending = half_of(parts)
        end(parts, ending)
        if once:
            with pytest.raises(Refused, match="transactionEndOnce=true"):
                end(parts, ending)
        else:
            end(parts, ending)
        assert delivered(broker) == expected


def test_a_slave_ends_nothing(parts: BrokerParts) -> None:
    parts.config._values["brokerRole"] = "SLAVE"
    with pytest.raises(Refused) as refused:
        endings_of(parts).check_role()
    assert refused.value.reason is Reason.SLAVE_NOT_AVAILABLE
