"""Tasks on a standalone master with two workers: shared out, shipped to, and killed."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_broker import EmbeddedBroker, Tls
from rocketmq_py.protocol.codes import RequestCode
from spark_connector.bundle import write_bundle
from tests.certificates import Certificates
from tests.spark.cluster import (
    JOB_S,
    ON_CLUSTER,
    ROOT,
    Driver,
    DriverError,
    bare_python,
    broken_module,
    standalone_cluster,
)
from tests.spark.processes import (
    close_connections,
    connections_asking,
    executor_of,
    kill,
    workers_asking,
)

pytestmark = pytest.mark.cluster

EXECUTORS = 2
BY_BOTH = {"minPartitions": "4", "maxPartitions": "4"}
"""So little is one task otherwise; and with their number fixed the planner pulls nothing."""
PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_BATCH_MESSAGE
IDLE_WORKER_ENDS_S = 75
WAIT_S = 60


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture(scope="session")
def application(
    master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Driver, str]]:
    """One application for the tests of this module, and what a read says before `register`.

    Its executors see the package, as on machines where it is installed; its driver also sees a
    module of somebody else that Spark looks at for data sources and that is broken.
    """
    folder = tmp_path_factory.mktemp("driver")
    path = (ROOT, broken_module(folder / "modules"))
    settings = ON_CLUSTER | {"spark.master": master, "spark.executorEnv.PYTHONPATH": str(ROOT)}
    with Driver(folder, settings, path=path) as driver:
        with pytest.raises(DriverError) as refused:
            driver.run("read", address="127.0.0.1:1", topic="T")
        driver.run("register")
        yield driver, str(refused.value)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


@pytest.fixture
def driver(application: tuple[Driver, str], broker: EmbeddedBroker) -> Iterator[Driver]:
    application[0].run("wait_for_executors", count=EXECUTORS)
    yield application[0]
    end_second_workers(broker)


def end_second_workers(broker: EmbeddedBroker) -> None:
    """Leave one worker to each executor, as tests count on, whichever of them comes first.

    A task that reads and writes has one for each, and Spark would use both in turn from then on.
    """
    kept = set()
    for worker in workers_asking(broker, PULL, SEND):
        executor = executor_of(worker)
        if executor in kept:
            kill(worker)
        kept.add(executor)


def fill(broker: EmbeddedBroker, count: int, queues: int) -> list[list[object]]:
    """Send numbers to the queues in turn; return the rows that a read of all must give."""
    broker.topics.create("T", queues=queues)
    for number in range(count):
        broker.send("T", b"%d" % number, queue=number % queues)
    return sorted([number % queues, number // queues, str(number)] for number in range(count))


@pytest.mark.case("SP62")
def test_both_executors_read_and_write_with_a_python_worker_each(
    driver: Driver, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    broker.topics.create("T", queues=4)
    driver.run("write", address=broker.namesrv_addr, topic="T", count=2_000, tasks=4)
    writers = workers_asking(broker, SEND)
    rows = driver.run("read", address=broker.namesrv_addr, topic="T", **BY_BOTH)
    assert sorted(int(body) for _, _, body in rows) == list(range(2_000))
    readers = workers_asking(broker, PULL)
    broker.journal.clear()
    sizes = driver.run(
        "stream_sizes", address=broker.namesrv_addr, topic="T", checkpoint=str(tmp_path), **BY_BOTH
    )
    assert sizes == [2_000]
    streamers = workers_asking(broker, PULL)
    for workers in (writers, readers, streamers):
        assert len(workers) == EXECUTORS
        assert len({executor_of(worker) for worker in workers}) == EXECUTORS


@pytest.mark.slow
@pytest.mark.case("SP65")
def test_twenty_batches_use_one_connection_of_each_process_to_each_server(
    driver: Driver, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 40, queues=2)
    broker.journal.clear()
    sizes = driver.run(
        "stream_sizes",
        address=broker.namesrv_addr,
        topic="T",
        checkpoint=str(tmp_path),
        maxOffsetsPerTrigger="2",
        minPartitions="2",
        maxPartitions="2",
    )
    assert sizes == [2] * 20
    planner, servers = 1, 2
    used = {entry.connection for entry in broker.journal.requests()}
    assert len(used) <= (EXECUTORS + planner) * servers
    assert len(connections_asking(broker, PULL)) == EXECUTORS


@pytest.mark.case("SP66")
def test_a_batch_after_idle_workers_lost_their_connection_or_life_connects_anew(
    driver: Driver, broker: EmbeddedBroker
) -> None:
    expected = fill(broker, 400, queues=2)
    assert sorted(driver.run("read", address=broker.namesrv_addr, topic="T", **BY_BOTH)) == expected
    first, second = workers_asking(broker, PULL)
    kill(first)
    before = connections_asking(broker, PULL)
    close_connections(broker, PULL, RequestCode.GET_ROUTEINFO_BY_TOPIC)
    broker.journal.clear()
    assert sorted(driver.run("read", address=broker.namesrv_addr, topic="T", **BY_BOTH)) == expected
    assert not connections_asking(broker, PULL) & before
    workers = workers_asking(broker, PULL)
    assert second in workers
    assert first not in workers


@pytest.mark.slow
@pytest.mark.case("SP66")
def test_a_batch_after_workers_ended_by_idling_connects_anew(
    driver: Driver, broker: EmbeddedBroker
) -> None:
    expected = fill(broker, 400, queues=2)
    driver.run("read", address=broker.namesrv_addr, topic="T", **BY_BOTH)
    before = workers_asking(broker, PULL)
    threading.Event().wait(IDLE_WORKER_ENDS_S)
    assert workers_asking(broker, PULL) == set()
    assert sorted(driver.run("read", address=broker.namesrv_addr, topic="T", **BY_BOTH)) == expected
    assert not workers_asking(broker, PULL) & before


@pytest.mark.slow
@pytest.mark.case("SP63")
def test_a_read_whose_executor_is_killed_gives_every_row_once(
    driver: Driver, broker: EmbeddedBroker
) -> None:
    expected = fill(broker, 4_000, queues=4)
    held = broker.faults.on(PULL, nth=10).drop().always()
    job = driver.begin(
        "read", address=broker.namesrv_addr, topic="T", pullTimeoutMs="500", **BY_BOTH
    )

    def readers() -> set[int]:
        return {executor_of(worker) for worker in workers_asking(broker, PULL)}

    # Pulls leave several at a time: one executor may be held before the other one has begun.
    broker.wait_for(lambda _b: held.hits and len(readers()) == EXECUTORS, timeout=WAIT_S)
    victim = readers().pop()
    pulled = {entry.fields["queueOffset"] for entry in broker.journal.requests(code=PULL)}
    assert len(pulled) > 1
    assert not job.done()
    kill(victim)
    held.end()
    assert sorted(job.result(JOB_S)) == expected
    assert victim not in {executor_of(worker) for worker in workers_asking(broker, PULL)}


@pytest.mark.slow
@pytest.mark.case("SP63")
def test_a_write_whose_executor_is_killed_stores_every_row_at_least_once(
    driver: Driver, broker: EmbeddedBroker
) -> None:
    broker.topics.create("T", queues=4)
    held = broker.faults.on(SEND, nth=4).drop_response().always()
    job = driver.begin(
        "write",
        address=broker.namesrv_addr,
        topic="T",
        count=20_000,
        tasks=4,
        batchBytes="16384",
        sendTimeoutMs="6000",
    )
    # Both wait for the answer of a send, and have had others answered.
    broker.wait_for(
        lambda _b: held.hits and len(workers_asking(broker, SEND)) >= EXECUTORS, timeout=WAIT_S
    )
    writers = {executor_of(worker) for worker in workers_asking(broker, SEND)}
    assert len(writers) == EXECUTORS
    before = len(broker.messages.in_topic("T"))
    assert 0 < before < 20_000
    assert not job.done()
    victim = writers.pop()
    kill(victim)
    held.end()
    job.result(JOB_S)
    assert victim not in {executor_of(worker) for worker in workers_asking(broker, SEND)}
    found = Counter(one.properties["DEDUPE_ID"] for one in broker.messages.in_topic("T"))
    assert set(found) == {str(number) for number in range(20_000)}
    repeated = sum(found.values()) - len(found)
    assert 0 < repeated <= 20_000


@pytest.mark.slow
@pytest.mark.case("SP63")
def test_a_stream_whose_executor_is_killed_copies_every_message_with_one_id(
    driver: Driver, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    fill(broker, 4_000, queues=4)
    broker.topics.create("Copies", queues=4)
    held = broker.faults.on(SEND, topic="Copies", nth=4).drop_response().always()
    job = driver.begin(
        "copy_stream",
        address=broker.namesrv_addr,
        source="T",
        target="Copies",
        checkpoint=str(tmp_path),
        reading=BY_BOTH,
        batchBytes="16384",
        sendTimeoutMs="6000",
    )
    broker.wait_for(
        lambda _b: held.hits and len(workers_asking(broker, SEND)) >= EXECUTORS, timeout=WAIT_S
    )
    assert not job.done()
    # Its source and its sink die together, as they are workers of one executor.
    victim = executor_of(workers_asking(broker, SEND).pop())
    kill(victim)
    held.end()
    job.result(JOB_S)
    assert victim not in {executor_of(worker) for worker in workers_asking(broker, SEND)}
    found = Counter(
        (one.body, one.properties["DEDUPE_ID"]) for one in broker.messages.in_topic("Copies")
    )
    assert {int(body) for body, _ in found} == set(range(4_000))
    assert len(found) == 4_000 < sum(found.values())


@pytest.mark.slow
@pytest.mark.case("SP64")
def test_a_zip_and_files_reach_machines_that_have_only_pyspark_and_pyarrow(
    master: str, broker: EmbeddedBroker, certificates: Certificates, tmp_path: Path
) -> None:
    expected = fill(broker, 200, queues=2)
    python = bare_python(tmp_path / "python", ("pyspark", "py4j", "pyarrow"))
    absent = ["attr", "attrs", "numpy", "orjson", "rocketmq_py", "spark_connector"]
    probe = f"from importlib.util import find_spec; print([n for n in {absent} if find_spec(n)])"
    seen = subprocess.run([python, "-I", "-c", probe], cwd=tmp_path, capture_output=True, text=True)
    assert seen.stdout == "[]\n"
    elsewhere = tmp_path / "elsewhere"  # not where the driver runs: only Spark finds it
    elsewhere.mkdir()
    bundle, keys = elsewhere / "bundle.zip", elsewhere / "keys.json"
    write_bundle(bundle)
    keys.write_text(json.dumps({"accessKey": "who", "secretKey": "hush"}), encoding="utf-8")
    settings = ON_CLUSTER | {"spark.master": master, "spark.cores.max": "1"}
    submit = f"--py-files {bundle}"
    with Driver(tmp_path, settings, python=python, path=(), submit=submit) as driver:
        assert driver.run("visible_in_workers", names=["numpy", "orjson"]) == []
        with pytest.raises(DriverError, match="DATA_SOURCE_NOT_FOUND"):
            driver.run("read", address=broker.namesrv_addr, topic="T")
        driver.run("register")
        driver.run("add_file", path=str(keys))
        rows = driver.run(
            "read", address=broker.namesrv_addr, topic="T", credentialsFile="keys.json"
        )
        assert sorted(rows) == expected
        sizes = driver.run(
            "stream_sizes",
            address=broker.namesrv_addr,
            topic="T",
            checkpoint=str(tmp_path / "checkpoint"),
            credentialsFile="keys.json",
        )
        assert sizes == [200]
        pulls = [one.header for one in broker.journal._ring if one.entry().code == PULL]
        assert pulls
        assert all(b'"AccessKey":"who"' in one for one in pulls if isinstance(one, bytes))
        # A file for TLS is found where Spark carried it.
        carried = elsewhere / "authority.pem"
        tls = {"tls": "true", "tlsCa": carried.name}
        with pytest.raises(DriverError, match=r"tlsCa = 'authority.pem': there is no such file"):
            driver.run("read", address=broker.namesrv_addr, topic="T", **tls)
        carried.write_bytes(certificates.authority.read_bytes())
        driver.run("add_file", path=str(carried))
        server = certificates.server
        secured = Tls(certificate=server.chain, key=server.key, mode="enforcing")
        with EmbeddedBroker(tls=secured, topics=["T"]) as secure:
            secure.send("T", b"x")
            there = {"address": secure.namesrv_addr, "topic": "T"}
            assert len(driver.run("read", **there, **tls)) == 1
            with pytest.raises(DriverError, match="the server closed it"):
                driver.run("read", **there)
        with pytest.raises(DriverError, match="numpy"):
            driver.run("write", address=broker.namesrv_addr, topic="T", count=1)


@pytest.mark.slow
@pytest.mark.case("SP68")
def test_a_broken_module_of_others_hides_the_source_until_it_is_registered(
    application: tuple[Driver, str], broker: EmbeddedBroker
) -> None:
    driver, refused = application
    expected = fill(broker, 10, queues=1)
    assert "DATA_SOURCE_NOT_FOUND" in refused
    assert driver.run("read", address=broker.namesrv_addr, topic="T") == expected
