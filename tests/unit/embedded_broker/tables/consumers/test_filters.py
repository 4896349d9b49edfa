"""Filters of groups by themselves, and their file."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from embedded_broker.clocks.session import Session
from embedded_broker.clocks.timeline import Budget
from embedded_broker.core.filters import Filters
from embedded_broker.settings.config import BrokerConfig
from embedded_broker.tables.consumers.filters import DEAD_MAX, ConsumerFilterTable
from rocketmq_py.protocol.bodies.heartbeat import SubscriptionData
from tests.unit.embedded_broker.steps import rests
from tests.unit.embedded_broker.store.store_tools import HandClock

DAY_MS = 86_400_000
BORN_MS, DIED_MS = 1_795_468_824_337, 1_795_468_845_377
OF_A_REAL_BROKER: dict[str, Any] = {
    "filterDataByTopic": {
        "T": {
            "groupFilterData": {
                "G": {
                    "bloomFilterData": {"bitNum": 112, "bitPos": [24, 26, 83]},
                    "bornTime": BORN_MS,
                    "clientVersion": 10,
                    "consumerGroup": "G",
                    "dead": True,
                    "deadTime": DIED_MS,
                    "expression": "amount = 7",
                    "expressionType": "SQL92",
                    "topic": "T",
                }
            },
            "topic": "T",
        },
        "U": {
            "groupFilterData": {
                "G": {
                    "bloomFilterData": {"bitNum": 112, "bitPos": [66, 62, 85]},
                    "bornTime": DIED_MS,
                    "clientVersion": 3,
                    "consumerGroup": "G",
                    "dead": False,
                    "deadTime": 0,
                    "expression": "amount = 9",
                    "expressionType": "SQL92",
                    "topic": "U",
                }
            },
            "topic": "U",
        },
    }
}
"""`config/consumerFilter.json` of 5.3.3."""


@define
class Rig:
    """A table, and a session clock that the test moves."""

    clock: HandClock = field(factory=HandClock)
    session: Session = field(init=False)
    table: ConsumerFilterTable = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.session = Session(self.clock)
        self.table = ConsumerFilterTable(BrokerConfig({}), self.session, Filters().problem)

    def told(self, version: int, expression: str, kind: str = "SQL92", topic: str = "T") -> str:
        """What is kept of "g" in "T" after a heartbeat: expression and version."""
        wanted = SubscriptionData(topic, expression, sub_version=version, expression_type=kind)
        list(rests(self.table.register("g", [wanted])))
        return self.kept()

    def kept(self) -> str:
        kept = self.table.find("T", "g")
        if kept is None:
            return "nothing"
        return f"{kept.expression} of {kept.client_version}" + (", dead" if kept.is_dead else "")

    def advance(self, by_ms: int) -> None:
        self.clock.now_ms += by_ms
        self.session.fire(self.clock.now_ms, horizon_ms=self.clock.now_ms, budget=Budget())


def test_the_last_right_expression_is_kept() -> None:
    rig = Rig()
    assert rig.told(1, "a >") == "nothing"
    assert rig.told(1, "a = 1", "LUA") == "nothing"
    assert rig.told(2, "a = 1") == "a = 1 of 2"
    assert rig.told(2, "a = 2") == "a = 1 of 2"
    assert rig.told(1, "a = 2") == "a = 1 of 2"
    assert rig.told(3, "a = 1") == "a = 1 of 3"
    assert rig.told(4, "") == "a = 1 of 3"
    assert rig.told(5, "x", "TAG") == "a = 1 of 3"
    assert rig.told(6, "a = 2") == "a = 2 of 6"
    assert rig.told(7, "a >") == "nothing"


def test_a_filter_dies_with_its_group_or_topic_and_lives_again() -> None:
    rig = Rig()
    rig.told(2, "a = 1")
    assert rig.told(2, "*", "TAG", "Other") == "a = 1 of 2, dead"
    assert rig.told(1, "a = 1") == "a = 1 of 2, dead"
    assert rig.told(2, "a = 2") == "a = 1 of 2"
    rig.table.unregister("g")
    assert rig.kept() == "a = 1 of 2, dead"
    assert rig.told(3, "a = 1") == "a = 1 of 3"
    rig.table.unregister("g")
    assert rig.told(4, "a = 2") == "a = 2 of 4"


def test_a_dead_filter_is_kept_for_a_day() -> None:
    rig = Rig()
    rig.told(1, "a = 1")
    rig.table.unregister("g")
    rig.advance(DAY_MS - 1)
    assert rig.kept() == "a = 1 of 1, dead"
    rig.advance(1)
    assert rig.kept() == "nothing"
    assert list(rig.table.keys()) == []
    rig.told(1, "a = 1")
    rig.table.unregister("g")
    rig.advance(DAY_MS // 2)
    rig.told(1, "a = 1")
    rig.advance(DAY_MS)
    assert rig.kept() == "a = 1 of 1"
    rig.table.unregister("g")
    rig.advance(DAY_MS)
    assert rig.kept() == "nothing"


def test_of_many_dead_filters_the_oldest_are_forgotten() -> None:
    rig = Rig()
    wanted = [SubscriptionData("T", "a = 1", sub_version=1, expression_type="SQL92")]
    for number in range(DEAD_MAX + 2):
        list(rests(rig.table.register(f"g{number}", wanted)))
    list(rests(rig.table.register("g", wanted)))
    for number in range(DEAD_MAX + 2):
        rig.table.unregister(f"g{number}")
    left = rig.table.value("T")
    assert left is not None
    assert list(left) == [*(f"g{number}" for number in range(2, DEAD_MAX + 2)), "g"]


def test_the_file_of_a_real_broker_is_read_and_written_as_it_is() -> None:
    rig = Rig(HandClock(DIED_MS + 1_000))
    rig.table.load_document(OF_A_REAL_BROKER)
    written = rig.table.to_document()["filterDataByTopic"]
    assert written["T"] == OF_A_REAL_BROKER["filterDataByTopic"]["T"]
    of_one = OF_A_REAL_BROKER["filterDataByTopic"]["U"]["groupFilterData"]["G"]
    # Nobody is there when a broker starts, so it has died: not before it was born.
    died = {"dead": True, "deadTime": DIED_MS}
    assert written["U"]["groupFilterData"]["G"] == of_one | died
    rig.advance(DAY_MS - 1_001)
    assert set(rig.table.keys()) == {"T", "U"}
    rig.advance(1)
    assert set(rig.table.keys()) == set()


def test_what_died_long_before_the_start_and_what_is_wrong_is_not_loaded() -> None:
    rig = Rig(HandClock(DIED_MS + 30_000 + DAY_MS - 1))
    stored = OF_A_REAL_BROKER["filterDataByTopic"]
    of_one = stored["U"]["groupFilterData"]["G"]
    wrong = {"groupFilterData": {"H": of_one | {"consumerGroup": "H", "expression": "a >"}}}
    backwards = {"V": wrong, "U": stored["U"], "T": stored["T"]}
    rig.table.load_document({"filterDataByTopic": backwards})
    assert set(rig.table.keys()) == {"U"}
    assert rig.table.find("U", "H") is None


def test_another_table_goes_on_with_the_filters() -> None:
    rig, other = Rig(), Rig()
    other.told(2, "a = 1")
    rig.table.take_over(other.table)
    assert rig.kept() == "a = 1 of 2"
    assert rig.told(1, "a = 2") == "a = 1 of 2"
