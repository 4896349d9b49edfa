"""The route table by itself."""

from __future__ import annotations

from embedded_broker.namesrv.routes import RouteTable
from rocketmq_py.protocol.bodies.topics import TopicConfig


def table_of(*brokers: str) -> RouteTable:
    table = RouteTable()
    for number, name in enumerate(brokers):
        table.register(
            cluster="C", broker_name=name, address=f"h:{number}", topics=[TopicConfig("T", 2, 2)]
        )
    return table


def test_a_topic_on_two_brokers_has_the_queues_of_both() -> None:
    route = table_of("a", "b").route("T")
    assert route is not None
    assert [data.broker_name for data in route.queue_datas] == ["a", "b"]
    assert [data.broker_addrs for data in route.broker_datas] == [{0: "h:0"}, {0: "h:1"}]


def test_an_unregistered_broker_leaves_routes_and_clusters() -> None:
    table = table_of("a", "b")
    table.unregister("a", "h:0")
    route = table.route("T")
    assert route is not None
    assert [data.broker_name for data in route.queue_datas] == ["b"]
    assert table.clusters().cluster_addr_table == {"C": ["b"]}
    table.unregister("b", "h:1")
    assert table.route("T") is None
    assert table.topic_names() == []


def test_a_new_address_replaces_the_old_one() -> None:
    table = table_of("a")
    table.register(cluster="C", broker_name="a", address="h:9", topics=[])
    assert table.clusters().broker_addr_table["a"].broker_addrs == {0: "h:9"}


def test_a_broker_that_moves_to_another_cluster_is_listed_there_only() -> None:
    table = table_of("a")
    table.register(cluster="D", broker_name="a", address="h:9", topics=[])
    assert table.clusters().cluster_addr_table == {"D": ["a"]}


def test_every_change_is_a_new_version() -> None:
    table = table_of("a")
    before = table.version
    table.put_topic("a", TopicConfig("U"))
    assert table.version > before


def test_readable_queues_are_those_of_all_brokers_that_may_be_read() -> None:
    table = RouteTable()
    for name, queues, perm in (("a", 2, 6), ("b", 1, 4), ("c", 3, 2)):
        topic = TopicConfig(topic_name="T", read_queue_nums=queues, perm=perm)
        table.register(cluster="C", broker_name=name, address=f"h:{name}", topics=[topic])
    found = table.readable_queues("T")
    assert [(one.broker_name, one.queue_id) for one in found or []] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert table.readable_queues("nosuch") is None


def register(table: RouteTable, broker_id: int, *, acting: bool | None = False) -> None:
    table.register(
        cluster="C",
        broker_name="a",
        address=f"h:{broker_id}",
        topics=[TopicConfig("T", 2, 2)],
        broker_id=broker_id,
        acting_master=acting,
    )


def perm_of(table: RouteTable) -> int:
    route = table.route("T")
    assert route is not None
    return route.queue_datas[0].perm


def test_a_slave_stands_beside_its_master_and_stays_when_that_goes() -> None:
    table = table_of("a")
    register(table, 1)
    table.unregister("a", "h:0")
    route = table.route("T")
    assert route is not None
    assert [data.broker_addrs for data in route.broker_datas] == [{1: "h:1"}]
    assert perm_of(table) == 6
    table.unregister("a", "h:1")
    assert table.route("T") is None


def test_where_a_slave_acts_as_master_nobody_may_write_while_the_master_is_away() -> None:
    table = RouteTable()
    register(table, 0, acting=True)
    register(table, 1, acting=True)
    assert perm_of(table) == 6
    table.unregister("a", "h:0")
    assert perm_of(table) == 4
    register(table, 0, acting=True)
    assert perm_of(table) == 6


def test_a_slave_that_acts_stands_in_the_place_of_a_master_that_is_away() -> None:
    seen = []
    for acting in (False, True):
        table = RouteTable()
        for broker_id in (0, 1, 2):
            register(table, broker_id, acting=acting)
        for gone in ("", "h:0", "h:1"):
            table.unregister("a", gone)
            route = table.route("T", with_acting=True)
            assert route is not None
            seen.append(route.broker_datas[0].broker_addrs)
    three = {0: "h:0", 1: "h:1", 2: "h:2"}
    assert seen[:3] == [three, {1: "h:1", 2: "h:2"}, {2: "h:2"}]
    assert seen[3:] == [three, {0: "h:1", 2: "h:2"}, {0: "h:2"}]


def test_the_first_slave_of_no_master_announces_its_topics_from_5_0_on() -> None:
    perms = []
    for acting in (None, False, True):
        table = RouteTable()
        register(table, 1, acting=acting)
        perms.append(perm_of(table) if table.route("T") else None)
    assert perms == [None, 6, 4]


def test_one_address_has_one_id() -> None:
    table = table_of("a")
    table.register(cluster="C", broker_name="a", address="h:0", topics=[], broker_id=1)
    assert table.clusters().broker_addr_table["a"].broker_addrs == {1: "h:0"}
