from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.consumer.allocate import (
    AllocateMachineRoomNearby,
    AllocateMessageQueueAveragely,
    AllocateMessageQueueAveragelyByCircle,
    AllocateMessageQueueByConfig,
    AllocateMessageQueueByMachineRoom,
    AllocateMessageQueueConsistentHash,
    AllocateMessageQueueStrategy,
)
from rocketmq_py.send_result import MessageQueue

VECTORS = json.loads((Path(__file__).parent / "allocate_vectors.json").read_text(encoding="utf-8"))[
    "rows"
]
STRATEGIES: dict[str, AllocateMessageQueueStrategy] = {
    strategy.name: strategy
    for strategy in (
        AllocateMessageQueueAveragely(),
        AllocateMessageQueueAveragelyByCircle(),
        AllocateMessageQueueConsistentHash(),
        AllocateMessageQueueByMachineRoom({"hz", "sh"}),
    )
}


def queues(count: int, topic: str = "T") -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(count)]


def ids(allocated: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in allocated]


@pytest.mark.case("T66")
def test_eight_queues_and_three_clients_give_blocks_of_three_three_two() -> None:
    strategy = AllocateMessageQueueAveragely()
    clients = ["a", "b", "c"]
    shares = [ids(strategy.allocate("G", client, queues(8), clients)) for client in clients]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.case("T66")
def test_eight_queues_dealt_in_a_circle_give_every_third_one() -> None:
    strategy = AllocateMessageQueueAveragelyByCircle()
    clients = ["a", "b", "c"]
    shares = [ids(strategy.allocate("G", client, queues(8), clients)) for client in clients]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]


@pytest.mark.case("T67")
@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{row['strategy']}-{row['topic']}")
def test_every_strategy_gives_the_queues_that_java_gives(row: dict[str, Any]) -> None:
    strategy = STRATEGIES[row["strategy"]]
    all_queues = sorted(
        MessageQueue(row["topic"], broker, number)
        for broker in row["brokers"]
        for number in range(row["queues"])
    )
    clients = sorted(row["result"])
    given = {
        client: [
            [queue.broker_name, queue.queue_id]
            for queue in strategy.allocate("G", client, all_queues, clients)
        ]
        for client in clients
    }
    assert given == row["result"]


@pytest.mark.case("T67")
def test_only_the_queues_of_a_client_that_leaves_the_ring_move() -> None:
    strategy = AllocateMessageQueueConsistentHash()
    clients = [f"10.0.0.{number}@{number}#1" for number in range(5)]
    stay, gone = clients[:-1], clients[-1]
    all_queues = queues(64)
    before = {c: set(strategy.allocate("G", c, all_queues, clients)) for c in clients}
    after = {c: set(strategy.allocate("G", c, all_queues, stay)) for c in stay}
    assert before[gone]
    assert all(before[client] <= after[client] for client in stay)
    assert set().union(*after.values()) == set(all_queues)


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_client_that_is_not_listed_gets_nothing(strategy: AllocateMessageQueueStrategy) -> None:
    assert strategy.allocate("G", "stranger", queues(4), ["a", "b"]) == []


@pytest.mark.parametrize(
    ("client", "all_queues", "clients", "named"),
    [("", queues(1), ["a"], "client_id"), ("a", [], ["a"], "queues"), ("a", queues(1), [], "ids")],
)
def test_an_empty_argument_is_named(
    client: str, all_queues: list[MessageQueue], clients: list[str], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        AllocateMessageQueueAveragely().allocate("G", client, all_queues, clients)


def test_more_clients_than_queues_leaves_the_last_ones_without() -> None:
    strategy = AllocateMessageQueueAveragely()
    clients = ["a", "b", "c"]
    shares = [ids(strategy.allocate("G", client, queues(2), clients)) for client in clients]
    assert shares == [[0], [1], []]


def test_configured_queues_are_given_for_their_own_topic_only() -> None:
    mine = [MessageQueue("T", "broker-a", 1), MessageQueue("U", "broker-a", 0)]
    strategy = AllocateMessageQueueByConfig(mine)
    assert strategy.name == "CONFIG"
    assert strategy.allocate("G", "a", queues(4), ["a"]) == mine[:1]
    assert strategy.allocate("G", "a", queues(4, "V"), ["a"]) == []


def test_a_ring_needs_a_number_of_points_that_is_not_negative() -> None:
    with pytest.raises(ValueError, match="virtual_nodes"):
        AllocateMessageQueueConsistentHash(-1)
    assert AllocateMessageQueueConsistentHash(0).allocate("G", "a", queues(2), ["a"]) == []


class Rooms:
    def broker_deploy_in(self, queue: MessageQueue) -> str:
        return queue.broker_name.partition("-")[0]

    def consumer_deploy_in(self, client_id: str) -> str:
        return client_id.partition("-")[0]


def test_a_room_with_clients_keeps_its_queues_and_other_rooms_are_shared() -> None:
    strategy = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), Rooms())
    all_queues = sorted(
        MessageQueue("T", broker, number) for broker in ("hz-a", "sh-a") for number in range(2)
    )
    clients = ["hz-1", "hz-2"]
    assert strategy.name == "MACHINE_ROOM_NEARBY-AVG"
    assert strategy.allocate("G", "hz-1", all_queues, clients) == [all_queues[0], all_queues[2]]
    both = ["hz-1", "sh-1"]
    assert strategy.allocate("G", "sh-1", all_queues, both) == all_queues[2:]


def test_a_room_without_a_name_is_refused() -> None:
    strategy = AllocateMachineRoomNearby(AllocateMessageQueueAveragely(), Rooms())
    with pytest.raises(ValueError, match="machine room"):
        strategy.allocate("G", "-1", queues(1), ["-1"])
