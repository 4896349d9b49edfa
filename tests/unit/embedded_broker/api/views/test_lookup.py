"""What a test names when it looks at a broker."""

import pytest

from embedded_broker import EmbeddedBroker
from embedded_broker.api.views.lookup import find_topic


def test_a_topic_is_found_by_its_exact_name(broker: EmbeddedBroker) -> None:
    parts = broker._parts()
    with parts.door.quiet:
        assert find_topic(parts, "T").topic_name == "T"


def test_the_error_for_an_unknown_topic_names_the_nearest(broker: EmbeddedBroker) -> None:
    broker.topics.create("Payments")
    parts = broker._parts()
    with parts.door.quiet:
        with pytest.raises(KeyError, match="did you mean 'Payments'"):
            find_topic(parts, "Payment")
        with pytest.raises(KeyError, match="no topic 'zzz'") as caught:
            find_topic(parts, "zzz")
        assert "did you mean" not in str(caught.value)


def test_every_view_has_a_repr_that_tells_what_is_there(broker: EmbeddedBroker) -> None:
    broker.send("T", b"secret body")
    broker.send("T", b"later", delay=5)
    broker.topics.create("U")
    assert repr(broker.messages) == "<messages: T 1, U 0>"
    assert repr(broker.topics) == "<topics T, U>"
    assert repr(broker.groups) == "<groups none>"
    assert repr(broker.timers) == "<timers: 1 pending>"
    assert repr(broker.journal) == "<journal: 2 requests, the last SEND_MESSAGE_V2>"


def test_a_repr_never_raises() -> None:
    broker = EmbeddedBroker(tcp=False, topics=["T"])
    for view in (broker.messages, broker.topics, broker.groups, broker.timers):
        assert "cannot be looked at now" in repr(view)
    assert repr(broker.journal) == "<journal: 0 requests>"
    with broker:
        topic = broker.topics.create("U", queues=1)
        assert repr(topic) == "<topic U: 1 queues, 0 messages>"
        broker.reset()
        assert repr(topic) == "<topic U: there is none>"
    assert repr(topic) == "<topic U: the broker cannot be looked at now>"
