"""The broker as a test author holds it: the cases of its Python face."""

import inspect
import os
import pydoc
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from threading import enumerate as threads

import pytest

from embedded_broker import (
    BrokerStateError,
    ClockError,
    EmbeddedBroker,
    EmbeddedCluster,
    StoreLockedError,
    TopicSpec,
    VirtualClock,
    WaitTimeoutError,
)
from embedded_broker.settings.profiles import ProfileName
from embedded_broker.store.memory_fs import MemoryFileSystem
from rocketmq_py.clock import monotonic
from rocketmq_py.protocol.bodies.topics import TopicRouteData
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.send import SendMessageRequestHeader
from rocketmq_py.transport import inproc as registry
from tests.unit.embedded_broker.peers import RawClient, open_files

Dial = Callable[[str], RawClient]
GUARD_S = 30.0


def send_request(
    topic: str, body: bytes, properties: str = "", **changes: object
) -> RemotingCommand:
    """A SEND_MESSAGE_V2 as a client of another language would write it."""
    header = SendMessageRequestHeader(
        producer_group="PG",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
    )
    return RemotingCommand(code=310, opaque=1, ext_fields=header.to_ext_v2(), body=body)


@pytest.mark.case("K1")
@pytest.mark.parametrize("in_directory", [False, True])
def test_routes_are_visible_inside_and_nothing_is_left_afterwards(
    dial: Dial, tmp_path: Path, in_directory: bool
) -> None:
    with EmbeddedBroker(topics=["warm"]):
        pass  # what is imported and cached once is not a leak
    files, running = open_files(), set(threads())

    with EmbeddedBroker(store=tmp_path / "s" if in_directory else None, topics=["T"]) as broker:
        clients = [dial(broker.namesrv_addr), dial(broker.addr)]
        route = TopicRouteData.decode(clients[0].route("T").body)
        assert route.broker_datas[0].broker_addrs == {0: broker.addr}
        assert clients[1].ask(9999).code == 3

    assert set(threads()) <= running
    assert registry.lookup(broker.addr) is None
    assert registry.lookup(broker.namesrv_addr) is None
    mine = {f"{one.socket.fileno()}:" for one in clients}
    assert {one for one in open_files() - files if not one.startswith(tuple(mine))} == set()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(broker.addr.rpartition(":")[2])), timeout=5)


@pytest.mark.case("K2")
def test_a_timer_of_a_tcp_client_is_delivered_when_its_time_has_come_and_once(dial: Dial) -> None:
    clock = VirtualClock()
    with EmbeddedBroker(clock=clock, topics=["T"], inproc=False) as broker:
        accepted_ms = clock.now_ms
        client = dial(broker.addr)
        client.send(send_request("T", b"later", "TIMER_DELAY_MS\x013000\x02"))
        assert client.receive().code == 0

        clock.advance(2.9)
        assert broker.topics["T"].count() == 0
        done = clock.advance(0.1)

        assert done.fired == 1
        (message,) = broker.messages.in_topic("T")
        assert message.body == b"later"
        assert (message.stored_at - clock.now()).total_seconds() == 0
        assert clock.now_ms == accepted_ms + 3000
        clock.advance(days=1)
        assert broker.topics["T"].count() == 1
        assert broker.timers.count() == 0


@pytest.mark.case("K7")
def test_a_broker_on_wall_time_says_how_to_have_a_clock_that_moves() -> None:
    with EmbeddedBroker(tcp=False) as broker, pytest.raises(ClockError, match="VirtualClock"):
        broker.clock.advance(10)


@pytest.mark.case("K13")
def test_a_second_broker_on_the_same_directory_is_told_who_holds_it(tmp_path: Path) -> None:
    other = (
        "import sys\n"
        "from embedded_broker import EmbeddedBroker, StoreLockedError\n"
        "try:\n"
        "    EmbeddedBroker(store=sys.argv[1]).start()\n"
        "except StoreLockedError as error:\n"
        "    print(error)\n"
    )
    with EmbeddedBroker(store=tmp_path, broker_name="first") as broker:
        with pytest.raises(StoreLockedError, match=f"first at {broker.addr}"):
            EmbeddedBroker(store=tmp_path).start()

        told = subprocess.run(
            [sys.executable, "-c", other, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=GUARD_S,
        ).stdout
        assert f"first at {broker.addr}" in told
        assert str(os.getpid()) in told
        assert broker.send("T", b"the first one lives").msg_id

    with EmbeddedBroker(store=tmp_path) as again:
        assert again.topics["T"].count() == 1


@pytest.mark.case("K15")
def test_two_brokers_at_once_do_not_see_each_other(dial: Dial) -> None:
    with EmbeddedBroker() as one, EmbeddedBroker() as two:
        assert len({one.addr, two.addr, one.namesrv_addr, two.namesrv_addr}) == 4
        for broker, body in ((one, b"1"), (two, b"2")):
            client = dial(broker.addr)
            client.send(send_request("T", body))
            assert client.receive().code == 0

        assert [message.body for message in one.messages.in_topic("T")] == [b"1"]
        assert [message.body for message in two.messages.in_topic("T")] == [b"2"]


@pytest.mark.case("K21")
def test_a_wait_that_fails_shows_what_was_expected_what_is_there_and_what_happened() -> None:
    with EmbeddedBroker(tcp=False, clock=VirtualClock(), seed=42) as broker:
        for number in range(12):
            broker.send("T", str(number).encode())
        broker.send("T", b"later", delay=60)
        started = monotonic()

        with pytest.raises(WaitTimeoutError) as caught:
            broker.wait_for(lambda b: b.topics["T"].count() == 99, timeout=0.2)

        text = str(caught.value)
        assert monotonic() - started >= 0.2
        assert 'b.topics["T"].count() == 99' in text
        assert "T: 12 messages; 1 timers pending" in text
        assert "the clock is frozen: broker.clock.advance(...)" in text
        assert "seed 42" in text
        assert text.count("SEND_MESSAGE_V2") == 10


@pytest.mark.case("K21")
def test_a_wait_over_the_tests_own_list_wakes_up() -> None:
    with EmbeddedBroker(tcp=False) as broker:
        mine: list[int] = []
        thread = Thread(target=mine.append, args=(1,))
        thread.start()

        broker.wait_for(lambda _: mine, timeout=GUARD_S)
        assert mine == [1]
        thread.join()


@pytest.mark.case("K29")
def test_an_exception_inside_the_block_closes_the_broker_and_stays_itself() -> None:
    broker = EmbeddedBroker(tcp=False)

    with pytest.raises(ZeroDivisionError, match="the test's own"), broker:
        raise ZeroDivisionError("the test's own")

    assert not broker.is_running


def test_waiting_for_deliveries_counts_from_the_topics_creation() -> None:
    clock = VirtualClock()
    with EmbeddedBroker(tcp=False, clock=clock) as broker:
        thread = Thread(target=lambda: [broker.send("T", b"x") for _ in range(3)])
        thread.start()
        broker.wait_delivered("T", 3, timeout=GUARD_S)
        thread.join()

        with pytest.raises(WaitTimeoutError, match="4 messages in topic 'T'"):
            broker.wait_delivered("T", 4, timeout=0)
        with pytest.raises(WaitTimeoutError, match="1 messages in topic 'nowhere'"):
            broker.wait_delivered("nowhere", timeout=0)


def test_a_wait_without_its_own_bound_ends_with_the_clocks_watchdog() -> None:
    with EmbeddedBroker(tcp=False, clock=VirtualClock(watchdog=0.05)) as broker:
        broker.send("T", b"x", delay=5)

        with pytest.raises(WaitTimeoutError, match=r"waited 0\.05 s.*\n.*next is .* at"):
            broker.wait_delivered("T")


@pytest.mark.parametrize("in_directory", [False, True])
def test_a_restart_keeps_ports_messages_timers_topics_and_clock(
    dial: Dial, tmp_path: Path, in_directory: bool
) -> None:
    clock = VirtualClock()
    store = tmp_path if in_directory else None
    with EmbeddedBroker(store=store, clock=clock, topics=[TopicSpec("T", queues=2)]) as broker:
        addresses = (broker.namesrv_addr, broker.addr)
        broker.send("T", b"now")
        broker.send("T", b"later", delay=60)
        broker.send("T", b"level", delay_level=5)
        broker.topics.create("Other", queues=7)

        broker.restart()

        assert (broker.namesrv_addr, broker.addr) == addresses
        assert dial(broker.addr).ask(9999).code == 3
        assert [message.body for message in broker.messages.in_topic("T")] == [b"now"]
        assert broker.topics["Other"].queues == 7
        assert broker.timers.count() == 2
        assert broker.timers.count(topic="T") == 2
        clock.advance(60)
        bodies = sorted(message.body for message in broker.messages.in_topic("T"))
        assert bodies == [b"later", b"level", b"now"]


def test_a_new_virtual_clock_begins_where_the_store_was_closed(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path, tcp=False, clock=VirtualClock()) as broker:
        broker.clock.advance(days=30)
        closed_at = broker.clock.now()

    with EmbeddedBroker(store=tmp_path, tcp=False, clock=VirtualClock()) as broker:
        assert broker.clock.now() >= closed_at


def test_a_file_system_object_can_be_given_and_outlives_the_broker() -> None:
    fs = MemoryFileSystem()
    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        broker.send("T", b"kept")

    with EmbeddedBroker(fs=fs, tcp=False) as broker:
        assert [message.body for message in broker.messages.in_topic("T")] == [b"kept"]


def test_listening_sockets_can_come_from_the_test(dial: Dial) -> None:
    asked: list[tuple[str, int]] = []

    def factory(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.create_server((host, port))

    with EmbeddedBroker(listener_factory=factory) as broker:
        assert dial(broker.addr).ask(9999).code == 3
    assert asked == [("127.0.0.1", 0), ("127.0.0.1", 0)]


@pytest.mark.parametrize("profile", ["rocketmq-4.9", "rocketmq-5.x"])
def test_names_and_versions_are_those_that_were_asked_for(dial: Dial, profile: ProfileName) -> None:
    with EmbeddedBroker(
        cluster_name="Shop", broker_name="tills", profile=profile, topics=["T"]
    ) as broker:
        answer = dial(broker.namesrv_addr).route("T")
        route = TopicRouteData.decode(answer.body)

        assert (route.broker_datas[0].cluster, route.broker_datas[0].broker_name) == (
            "Shop",
            "tills",
        )
        assert answer.version == broker.profile.version


@pytest.mark.parametrize(("profile", "answered"), [("rocketmq-4.9", False), ("rocketmq-5.x", True)])
def test_an_unknown_code_at_the_name_server_is_ignored_by_4_9_only(
    dial: Dial, profile: ProfileName, answered: bool
) -> None:
    with EmbeddedBroker(profile=profile, topics=["T"]) as broker:
        client = dial(broker.namesrv_addr)
        client.send(RemotingCommand(code=9999, opaque=1))
        codes = [client.receive().code] if answered else []

        assert codes == ([3] if answered else [])
        assert client.route("T").code == 0


def test_a_synchronous_flush_answers_sends_after_the_sync(dial: Dial, tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path, config={"flushDiskType": "SYNC_FLUSH"}) as broker:
        client = dial(broker.addr)
        requests = [send_request("T", b"x", "WAIT\x01true\x02") for _ in range(20)]
        for number, request in enumerate(requests):
            request.opaque = number
        client.send(*requests)

        answers = [client.receive() for _ in requests]

        assert {answer.code for answer in answers} == {0}
        assert sorted(answer.opaque for answer in answers) == list(range(20))
        store = broker._parts().store
        assert store.flushed_offset > 0
        assert broker.send("T", b"and without a client").queue_offset >= 0


def test_starting_twice_and_using_a_closed_broker_are_refused() -> None:
    broker = EmbeddedBroker(tcp=False)
    with pytest.raises(BrokerStateError, match="no address yet"):
        _ = broker.addr
    with broker, pytest.raises(BrokerStateError, match="already running"):
        broker.start()
    broker.close()

    with pytest.raises(BrokerStateError, match="call start"):
        broker.send("T", b"x")
    assert "not running" in repr(broker)


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    with EmbeddedBroker(store=tmp_path, tcp=False):
        files, running = open_files(), set(threads())
        for _ in range(3):
            with pytest.raises(StoreLockedError):
                EmbeddedBroker(store=tmp_path).start()
        assert open_files() <= files
        assert set(threads()) <= running


@pytest.mark.case("K24")
def test_in_a_forked_child_the_broker_says_so_and_the_parent_is_unharmed(tmp_path: Path) -> None:
    program = tmp_path / "fork.py"
    program.write_text(
        "import os, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "from embedded_broker import BrokerStateError, EmbeddedBroker\n"
        "with EmbeddedBroker(topics=['T']) as broker:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        refused = 0\n"
        "        for call in (lambda: broker.send('T', b'x'), broker.close, broker.restart):\n"
        "            try:\n"
        "                call()\n"
        "            except BrokerStateError as error:\n"
        "                refused += 'forked child' in str(error)\n"
        "        os._exit(refused)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    broker.send('T', b'parent')\n"
        "    print(broker.topics['T'].count())\n"
    )

    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=GUARD_S, check=False
    )

    assert (done.stdout.split(), done.stderr) == (["3", "1"], "")


def test_a_broker_left_running_closes_itself_at_exit_and_says_so(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from embedded_broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(store=sys.argv[1]).start()\n"
        "broker.send('T', b'kept')\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=True,
    )

    assert "ResourceWarning" in done.stderr
    assert "was left running" in done.stderr
    assert not (tmp_path / "abort").exists()
    with EmbeddedBroker(store=tmp_path, tcp=False) as broker:
        assert broker.topics["T"].count() == 1


def test_a_broker_left_running_by_a_test_is_told_by_pytest_too(tmp_path: Path) -> None:
    test = tmp_path / "test_forgetful.py"
    test.write_text(
        "from embedded_broker import EmbeddedBroker\n"
        "def test_it():\n"
        "    EmbeddedBroker(tcp=False, broker_name='forgotten').start()\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", str(test)),
            *("-p", "no:cacheprovider", "-p", "no:asyncio"),
        ],
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
        cwd=tmp_path,
    )
    assert "1 passed" in done.stdout
    assert "broker forgotten" in done.stderr
    assert "was left running" in done.stderr


def test_the_help_of_a_broker_and_of_a_cluster_shows_what_they_have() -> None:
    for kind, names in (
        (EmbeddedBroker, ("timers", "messages", "topics", "groups", "faults", "journal", "aio")),
        (EmbeddedCluster, ("brokers", "clock", "namesrv_addr")),
    ):
        for name in names:
            assert inspect.getdoc(getattr(kind, name))
            assert f" {name}\n" in pydoc.plain(pydoc.render_doc(kind))


@pytest.mark.case("W20")
def test_a_send_without_topic_is_refused_by_name_and_the_socket_stays(dial: Dial) -> None:
    with EmbeddedBroker(topics=["T"]) as broker:
        client = dial(broker.addr)
        request = send_request("T", b"x")
        del request.ext_fields["b"]

        client.send(request, send_request("T", b"x"))
        refused, sent = client.receive(), client.receive()

        assert refused.code == 1
        assert "topic" in (refused.remark or "")
        assert sent.code == 0


def test_a_client_that_vanishes_takes_its_waiting_requests_along(dial: Dial) -> None:
    heartbeat = (
        b'{"clientID":"me@1","producerDataSet":[],"consumerDataSet":[{"groupName":"G",'
        b'"consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        b'"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":'
        b'[{"topic":"T","subString":"*","subVersion":1}]}]}'
    )
    pull = {
        "consumerGroup": "G",
        "topic": "T",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "2",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "1",
    }
    with EmbeddedBroker(topics=[TopicSpec("T", queues=5)]) as broker:
        parts = broker._parts()
        client = dial(broker.addr)
        assert client.ask(34, body=heartbeat).code == 0
        client.send(
            *(
                RemotingCommand(
                    code=11, opaque=100 + queue, ext_fields={**pull, "queueId": str(queue)}
                )
                for queue in range(5)
            )
        )
        broker.wait_for(lambda _: len(parts.consume.waiters) == 5, timeout=GUARD_S)

        client.close()

        broker.wait_for(lambda _: not parts.endpoint.connections, timeout=GUARD_S)
        assert len(parts.consume.waiters) == 0
        assert parts.tables.consumers.get("G") is None
        assert dial(broker.addr).ask(9999).code == 3
