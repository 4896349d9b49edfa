"""Bodies of topics and routes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_py.errors import BodyError
from rocketmq_py.protocol.bodies.document import MessageQueueKey
from rocketmq_py.protocol.bodies.topics import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfig,
    TopicList,
    TopicOffset,
    TopicRouteData,
    TopicStatsTable,
)
from rocketmq_py.protocol.lenient_json import loads_lenient

WHOLE = st.integers(-(10**6), 1 << 62)
NAME = st.text(st.sampled_from('aZ-%_.9"\\é{}:,\n'), max_size=4)


def test_a_topic_has_the_defaults_of_the_original() -> None:
    topic = TopicConfig("T")

    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (16, 16, 6)
    assert TopicConfig.decode(topic.encode()) == topic


@pytest.mark.case("W24")
def test_topic_statistics_read_the_same_with_object_and_with_quoted_keys() -> None:
    table = TopicStatsTable({MessageQueueKey("T", "broker-a", 1): TopicOffset(0, 5, 17)})

    assert table == TopicStatsTable.decode(table.encode())
    assert table == TopicStatsTable.decode(table.encode(standard=True))
    assert table.encode().startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"t')


def read_by_the_table(body: bytes) -> TopicStatsTable | None:
    try:
        return TopicStatsTable.from_document(loads_lenient(body))
    except BodyError:
        return None


@pytest.mark.case("W24")
@given(
    st.dictionaries(
        st.builds(MessageQueueKey, NAME, NAME, st.integers(0, 1 << 20)),
        st.builds(TopicOffset, WHOLE, WHOLE, WHOLE),
        max_size=4,
    ),
    st.none() | st.floats(0, 1e9),
    st.data(),
)
def test_topic_statistics_as_servers_write_them_read_as_any_other_document(
    table: dict[MessageQueueKey, TopicOffset], rate: float | None, data: st.DataObject
) -> None:
    body = TopicStatsTable(table, rate).encode()
    assert TopicStatsTable.decode(body) == TopicStatsTable(table, rate or 0.0)
    at = data.draw(st.integers(0, len(body) - 1), "damaged at")
    damage = data.draw(st.sampled_from([b"", b",", b"0", b'"', b"}", b" ", b"\xff", b"-"]), "by")
    damaged = body[:at] + damage + body[at + 1 :]
    try:
        read = TopicStatsTable.decode(damaged)
    except BodyError:
        read = None
    assert read == read_by_the_table(damaged)


def test_a_4_9_broker_leaves_out_the_rate() -> None:
    assert TopicStatsTable(topic_put_tps=None).encode() == b'{"offsetTable":{}}'


def test_lists_and_versions_read_back() -> None:
    assert TopicList.decode(TopicList(["T"]).encode()) == TopicList(["T"])
    assert DataVersion.decode(DataVersion(3, 0, 17).encode()) == DataVersion(3, 0, 17)


ROUTE = TopicRouteData(
    [QueueData("broker-a", 4, 4, 6, 0)],
    [BrokerData("DefaultCluster", "broker-a", {0: "10.0.0.1:10911"})],
)


@pytest.mark.case("W22")
def test_a_route_is_written_with_bare_or_with_quoted_broker_ids() -> None:
    assert b'{0:"10.0.0.1:10911"}' in ROUTE.encode()
    assert b'{"0":"10.0.0.1:10911"}' in ROUTE.encode(standard=True)


@pytest.mark.case("W22")
@pytest.mark.case("W24")
def test_both_forms_of_a_route_read_as_the_same_route() -> None:
    assert TopicRouteData.decode(ROUTE.encode()) == ROUTE
    assert TopicRouteData.decode(ROUTE.encode(standard=True)) == ROUTE


def test_the_order_configuration_is_left_out_unless_set() -> None:
    assert b"orderTopicConf" not in ROUTE.encode()
    ordered = TopicRouteData(order_topic_conf="broker-a:4")
    assert TopicRouteData.decode(ordered.encode()).order_topic_conf == "broker-a:4"


def test_nothing_that_python_cannot_read_as_a_literal_is_in_a_route() -> None:
    for word in (b"true", b"false", b"null"):
        assert word not in ROUTE.encode()


@pytest.mark.case("W24")
def test_a_cluster_reads_the_same_with_bare_and_quoted_keys() -> None:
    cluster = ClusterInfo({"broker-a": ROUTE.broker_datas[0]}, {"DefaultCluster": ["broker-a"]})

    assert cluster == ClusterInfo.decode(cluster.encode())
    assert cluster == ClusterInfo.decode(cluster.encode(standard=True))
    assert b"{0:" in cluster.encode()
