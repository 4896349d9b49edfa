"""A topic whose brokers are away is waited for; one that nobody knows is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from embedded_broker import EmbeddedCluster
from rocketmq_py import MessageQueue, MQClientException, NameServerUnavailableError, NoRouteError
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.raw import MessageIds, QueueAccess
from spark_connector.options.write_options import write_options
from spark_connector.writing.encoding import Encoder
from spark_connector.writing.queue_choice import QueueChoice, first_queues
from spark_connector.writing.send_errors import Patience
from spark_connector.writing.write_columns import check_columns

PATIENT = Patience(retries=0, deadline_s=120.0)
NONE = Patience(retries=0, deadline_s=0.0)
NOBODY = "127.0.0.1:1"


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """Two brokers; only the first one has the topic T."""
    with EmbeddedCluster(brokers=2, config={"autoCreateTopicEnable": False}) as started:
        started["broker-a"].topics.create("T")
        yield started


@pytest.fixture
def access(cluster: EmbeddedCluster) -> Iterator[QueueAccess]:
    with QueueAccess(namesrv_addr=cluster.namesrv_addr) as started:
        yield started


def spread(
    access: QueueAccess, patience: Patience, *, planned: bool = False, expected: str | None = None
) -> QueueChoice:
    return QueueChoice(access, patience, {}, planned, expected)


@pytest.mark.case("SP39")
def test_a_topic_that_was_there_when_the_write_was_planned_is_waited_for(
    cluster: EmbeddedCluster, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.stop("broker-a")
    refused = threading.Event()
    write_queues = access.write_queues

    def noting(topic: str) -> tuple[MessageQueue, ...]:
        try:
            return write_queues(topic)
        except NoRouteError:
            refused.set()
            raise

    monkeypatch.setattr(access, "write_queues", noting)
    with ThreadPoolExecutor(1) as other:
        mine = spread(access, PATIENT, planned=True, expected="T")
        queues = other.submit(mine.queues_of, "T")
        assert refused.wait(30)
        cluster.start("broker-a")
        assert {queue.broker_name for queue in queues.result(30)} == {"broker-a"}


def test_patience_ends_in_an_error_that_spark_repeats(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    cluster.stop("broker-a")
    mine = spread(access, Patience(retries=2, deadline_s=0.0), planned=True, expected="T")
    with pytest.raises(MQClientException, match=r"stored after 3 tries in .*no route") as caught:
        mine.queues_of("T")
    assert not isinstance(caught.value, NoRouteError)


def test_a_topic_that_this_process_has_seen_is_waited_for_when_it_loses_its_queues(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    assert len(spread(access, NONE).queues_of("T")) > 0
    cluster.read_only("broker-a")
    access.read_queues("T")
    with pytest.raises(MQClientException, match="no writable queue") as caught:
        spread(access, NONE).queues_of("T")
    assert not isinstance(caught.value, NoRouteError)


def test_a_topic_of_a_column_that_nobody_has_seen_is_refused_while_brokers_are_there(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    with pytest.raises(NoRouteError, match="create the topic"):
        spread(access, PATIENT, planned=True).queues_of("Nowhere")
    for name in ("broker-a", "broker-b"):
        cluster.stop(name)
    with pytest.raises(MQClientException, match="not stored after 1 tries") as caught:
        spread(access, NONE, planned=True).queues_of("Nowhere")
    assert not isinstance(caught.value, NoRouteError)


def test_a_silent_name_server_is_waited_for_only_when_it_answered_before() -> None:
    with QueueAccess(namesrv_addr=NOBODY) as access:
        with pytest.raises(NameServerUnavailableError):
            spread(access, PATIENT).queues_of("T")
        with pytest.raises(MQClientException, match="not stored after 2 tries") as caught:
            spread(access, Patience(retries=1, deadline_s=0.0), planned=True).queues_of("T")
        assert not isinstance(caught.value, NameServerUnavailableError)


def test_a_write_is_planned_with_a_topic_that_exists(
    cluster: EmbeddedCluster, access: QueueAccess
) -> None:
    assert [queue.broker_name for queue in first_queues(access, "T")] == ["broker-a"] * 4
    assert first_queues(access, None) == ()
    with pytest.raises(NoRouteError, match="create the topic"):
        first_queues(access, "Nowhere")
    for name in ("broker-a", "broker-b"):
        cluster.stop(name)
    assert first_queues(access, "Other") == ()  # nobody can know: the tasks wait
    with QueueAccess(namesrv_addr=NOBODY) as nobody:
        for topic in ("T", None):
            with pytest.raises(NameServerUnavailableError):
                first_queues(nobody, topic)


def test_the_name_server_is_asked_once_for_many_failures_of_one_moment(
    cluster: EmbeddedCluster, access: QueueAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_connector.writing.queue_choice.monotonic", lambda: 5.0)
    mine = spread(access, NONE)
    journal = cluster.brokers[0].journal
    before = len(journal.requests(code=RequestCode.GET_ROUTEINFO_BY_TOPIC))
    for _ in range(5):
        mine.look_again("T")
    assert len(journal.requests(code=RequestCode.GET_ROUTEINFO_BY_TOPIC)) == before + 1


def test_rows_of_a_topic_that_does_not_exist_are_told_apart_where_that_is_asked_for(
    access: QueueAccess,
) -> None:
    options = write_options({"nameServer": "h:1"}, streaming=False)
    columns = {
        "body": pa.array([b"x"] * 4),
        "topic": pa.array(["T", "Nowhere", "T", "Nowhere"]),
        "sharding_key": pa.array(["k"] * 4),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    encoded = Encoder(options, check_columns(batch.schema, options), MessageIds()).encode(batch, 0)
    with pytest.raises(NoRouteError):
        spread(access, NONE, planned=True).places_of(encoded)
    lenient = QueueChoice(access, NONE, {}, True, None, unknown_is_invalid=True)
    places = lenient.places_of(encoded)
    why = "topic Nowhere does not exist"
    assert places.missing == {1: why, 3: why}
    assert places.lanes.keys() == {0, 2}
    assert places.queues.keys() == {"T"}
    write_queues = access.write_queues
    access.write_queues = lambda _topic: pytest.fail("asked again")  # type: ignore[assignment]
    assert lenient.places_of(encoded).missing == places.missing  # known for a moment
    access.write_queues = write_queues  # type: ignore[method-assign]
