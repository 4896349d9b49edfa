"""Topics over HTTP."""

from __future__ import annotations

from embedded_broker import EmbeddedBroker
from tests.unit.embedded_broker.control.http_peer import HttpPeer


def test_a_topic_is_created_changed_and_told(broker: EmbeddedBroker, control: HttpPeer) -> None:
    told = control.post("/topics", name="New", queues=2, message_type="DELAY")
    assert told == {"name": "New", "queues": 2, "count": 0, "max_offsets": [0, 0]}
    assert control.post("/topics", name="New", queues=3)["queues"] == 3
    broker.send("New", b"x", queue=2, delay=0)
    assert control.get("/topics/New")["max_offsets"] == [0, 0, 1]
    assert [one["name"] for one in control.get("/topics")] == broker.topics.names()


def test_what_a_broker_refuses_is_told(control: HttpPeer) -> None:
    assert control.refused(400, "POST", "/topics", name="a b")["value"] == "a b"
    told = control.refused(400, "POST", "/topics", name="N", queues=5000)
    assert (told["setting"], told["value"], told["limit"]) == (
        "queues",
        5000,
        "a whole number from 1 to 1024",
    )
    assert control.refused(400, "POST", "/topics")["setting"] == "name"
    assert control.refused(404, "GET", "/topics/t")["detail"] == "no topic 't'"


def test_a_wait_ends_with_the_message_or_with_its_time(
    broker: EmbeddedBroker, control: HttpPeer
) -> None:
    broker.send("T", b"x")
    assert control.post("/topics/T/wait")["count"] == 1
    told = control.refused(504, "POST", "/topics/T/wait", count=2, timeout=0)
    assert "2 messages in topic 'T'" in told["detail"]
    limit = control.refused(400, "POST", "/topics/T/wait", timeout=301)["limit"]
    assert limit == "a number from 0 to 300"
