"""What released clients ask the broker, in the order in which their sessions are written down."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

import pytest
from attrs import evolve, frozen

from embedded_broker import EmbeddedBroker
from embedded_broker.remoting.journal import JournalEntry
from embedded_broker.settings.profiles import ProfileName
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.interop.scenarios import CLIENTS, run

SCENARIOS = ("sync", "orderly", "transaction")
COUNT = 20
JOINS = (Code.HEART_BEAT, Code.NOTIFY_CONSUMER_IDS_CHANGED, Code.GET_CONSUMER_LIST_BY_GROUP)
CONSUMES = (Code.QUERY_CONSUMER_OFFSET, Code.PULL_MESSAGE)


@frozen
class Habits:
    """How a client sends, and which broker it is run with.

    Java's say that they leave, and mark what needs no answer.
    """

    sends: Code
    profile: ProfileName
    is_java: bool


HABITS = {
    "Java 4.9.4": Habits(Code.SEND_MESSAGE_V2, "rocketmq-4.9", is_java=True),
    "Java 5.3.3": Habits(Code.SEND_MESSAGE_V2, "rocketmq-5.x", is_java=True),
    "Go 2.1.2": Habits(Code.SEND_MESSAGE, "rocketmq-5.x", is_java=False),
}


def session(entries: Iterable[JournalEntry], code: Code, topic: str) -> list[int]:
    """Give the codes of the client that sent this request about a topic: each when it came first.

    A client that has sent no heartbeat has one connection and no name.
    """

    def who(entry: JournalEntry) -> tuple[str, str | int]:
        return entry.endpoint, entry.client_id or entry.connection

    known = list(entries)
    asker = next(who(one) for one in known if one.code == code and one.topic == topic)
    return list(dict.fromkeys(one.code for one in known if who(one) == asker))


@pytest.mark.case("W109")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", HABITS)
def test_a_client_asks_in_the_written_order(name: str) -> None:
    client = next(one for one in CLIENTS if one.name == name)
    if shutil.which(client.needs) is None:
        missing = f"{client.needs} not found: {name} is not run"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    habits = HABITS[name]
    topics = [f"S_{scenario}" for scenario in SCENARIOS]
    with EmbeddedBroker(profile=habits.profile, topics=topics) as broker:
        cells = run(evolve(client, scenarios=SCENARIOS), broker.namesrv_addr, "S")
        entries = broker.journal.requests()
    assert {one: cells[one].wrong(one) for one in SCENARIOS} == dict.fromkeys(SCENARIOS)

    assert entries[0].code == Code.GET_ROUTEINFO_BY_TOPIC
    assert {one.code for one in entries if one.endpoint == "namesrv"} == {entries[0].code}
    leave = {Code.UNREGISTER_CLIENT} if habits.is_java else set()

    reader = session(entries, Code.PULL_MESSAGE, "S_sync")
    assert [one for one in reader if one in JOINS + CONSUMES] == [*JOINS, *CONSUMES]
    assert set(reader) - {*JOINS, *CONSUMES} == {Code.UPDATE_CONSUMER_OFFSET} | leave

    orderly = session(entries, Code.PULL_MESSAGE, "S_orderly")
    in_order = [*JOINS, Code.LOCK_BATCH_MQ, *CONSUMES]
    assert [one for one in orderly if one in in_order] == in_order
    assert set(orderly) - set(in_order) >= {Code.UNLOCK_BATCH_MQ} | leave

    sender = session(entries, habits.sends, "S_sync")
    assert set(sender) == {habits.sends, Code.HEART_BEAT} | leave
    assert not leave or sender[-1] == Code.UNREGISTER_CLIENT

    transactions = session(entries, habits.sends, "S_transaction")
    acts = [habits.sends, Code.END_TRANSACTION]
    assert [one for one in transactions if one in acts] == acts
    ends = [one for one in entries if one.code == Code.END_TRANSACTION]
    assert len(ends) == COUNT
    assert {one.oneway for one in ends} == {habits.is_java}
