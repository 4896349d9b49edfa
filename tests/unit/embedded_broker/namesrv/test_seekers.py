"""Who asked for a topic that did not exist, by itself."""

from __future__ import annotations

import pytest

from embedded_broker.namesrv import seekers as module
from embedded_broker.namesrv.seekers import Seekers
from embedded_broker.tables.peer import Peer


class Asking(Peer):
    """A peer that only asks."""

    def __init__(self, mailbox: object = None) -> None:
        super().__init__(("127.0.0.1", 1), ("127.0.0.1", 2))
        self.mailbox = mailbox

    def close(self) -> None:
        self.closed = True


def topics(seekers: Seekers) -> list[tuple[list[str], str]]:
    return [(sorted(one.groups), one.topic) for one in seekers.waiting()]


def test_a_connection_that_asks_for_a_retry_topic_is_a_consumer_and_no_other_is() -> None:
    seekers, peer = Seekers(), Asking()
    seekers.told(peer, "T", exists=False)
    seekers.told(peer, "Known", exists=True)
    assert topics(seekers) == []
    seekers.told(peer, "%RETRY%G", exists=False)
    assert topics(seekers) == [(["G"], "T")]
    peer.close()
    assert topics(seekers) == []


def test_what_a_producer_asked_for_is_created_by_its_first_send() -> None:
    seekers, peer = Seekers(), Asking()
    seekers.told(peer, "%RETRY%G", exists=True)
    seekers.told(peer, "Mine", exists=False)
    seekers.told(peer, "ByProducer", exists=False)
    seekers.told(peer, "TBW102", exists=True)
    assert topics(seekers) == [(["G"], "Mine")]


def test_a_client_of_this_process_tells_itself() -> None:
    seekers, peer = Seekers(), Asking(mailbox=object())
    seekers.told(peer, "%RETRY%G", exists=False)
    seekers.told(peer, "T", exists=False)
    assert topics(seekers) == []


def test_with_a_route_a_consumer_has_a_moment_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    seekers, peer = Seekers(), Asking()
    for topic in ("%RETRY%G", "T", "U"):
        seekers.told(peer, topic, exists=False)
    seekers.told(peer, "T", exists=True)
    (first, second) = seekers.waiting()
    seekers.forget(second)
    assert topics(seekers) == [(["G"], "T")]
    now[0] += module.JOINS_WITHIN_S + 1
    assert topics(seekers) == []
    seekers.forget(first)


def test_few_topics_of_a_connection_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOPICS_MAX", 2)
    seekers, peer = Seekers(), Asking()
    for topic in ("%RETRY%G", "A", "B", "C"):
        seekers.told(peer, topic, exists=False)
    assert topics(seekers) == [(["G"], "B"), (["G"], "C")]
