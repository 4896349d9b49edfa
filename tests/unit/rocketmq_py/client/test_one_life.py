"""What start, shutdown, ``with``, signals and forks mean: the same for every kind of client.

Those of ONS wrap each error in their own, and a start of what runs does nothing there.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from compat.ons import Action, ONSFactory, OrderAction, TransactionStatus
from rocketmq_py import (
    ConsumeConcurrentlyStatus,
    DefaultMQAdminExt,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    QueueAccess,
    TransactionMQProducer,
    running_clients,
)
from rocketmq_py.admin import AdminClient
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.errors import (
    ClientClosedError,
    ForkedClientError,
    MQClientException,
    NotStartedError,
    ONSClientException,
)
from tests.unit.rocketmq_py.scripted import ScriptedCluster
from tests.waiting import until

WAIT_S = 20.0


class Undecided:
    """A transaction listener that never knows."""

    def execute_local_transaction(self, *_: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW

    check_local_transaction = execute_local_transaction


def producer(namesrv_addr: str) -> DefaultMQProducer:
    return DefaultMQProducer("P", namesrv_addr=namesrv_addr)


def transaction_producer(namesrv_addr: str) -> TransactionMQProducer:
    return TransactionMQProducer("X", namesrv_addr=namesrv_addr, transaction_listener=Undecided())


def push_consumer(namesrv_addr: str) -> DefaultMQPushConsumer:
    made = DefaultMQPushConsumer("G", namesrv_addr=namesrv_addr)
    made.subscribe("T")
    made.register_message_listener(lambda *_: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
    return made


def queue_access(namesrv_addr: str) -> QueueAccess:
    return QueueAccess(namesrv_addr=namesrv_addr)


def admin(_: str) -> DefaultMQAdminExt:
    return DefaultMQAdminExt()


def admin_client(namesrv_addr: str) -> AdminClient:
    return AdminClient(namesrv_addr=namesrv_addr)


def ons_producer(namesrv_addr: str) -> Any:
    return ONSFactory.create_producer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_p"})


def ons_consumer(namesrv_addr: str) -> Any:
    made = ONSFactory.create_consumer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_c"})
    made.subscribe("T", "*", lambda *_: Action.CommitMessage)
    return made


def ons_order_producer(namesrv_addr: str) -> Any:
    return ONSFactory.create_order_producer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_o"})


def ons_transaction_producer(namesrv_addr: str) -> Any:
    settings = {"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_t"}
    return ONSFactory.create_transaction_producer(settings, lambda _: TransactionStatus.Unknow)


def ons_order_consumer(namesrv_addr: str) -> Any:
    made = ONSFactory.create_ordered_consumer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_s"})
    made.subscribe("T", "*", lambda *_: OrderAction.Success)
    return made


def ons_batch_consumer(namesrv_addr: str) -> Any:
    made = ONSFactory.create_batch_consumer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_b"})
    made.subscribe("T", "*", lambda *_: Action.CommitMessage)
    return made


def ons_pull_consumer(namesrv_addr: str) -> Any:
    return ONSFactory.create_pull_consumer({"NAMESRV_ADDR": namesrv_addr, "GROUP_ID": "GID_l"})


OF_THE_SDK: list[Callable[[str], Any]] = [
    producer,
    transaction_producer,
    push_consumer,
    queue_access,
    admin,
    admin_client,
]
OF_ONS: list[Callable[[str], Any]] = [
    *(ons_producer, ons_order_producer, ons_transaction_producer),
    *(ons_consumer, ons_order_consumer, ons_batch_consumer, ons_pull_consumer),
]


@pytest.fixture(params=[*OF_THE_SDK, *OF_ONS], ids=lambda made: made.__name__)
def client(request: pytest.FixtureRequest, cluster: ScriptedCluster) -> Iterator[Any]:
    """A client of each kind, not started; it leaves neither an instance nor a thread."""
    instances, threads = running_clients(), set(threading.enumerate())
    made = request.param(cluster.namesrv_addr)
    yield made
    made.shutdown()
    assert running_clients() == instances

    def is_alone() -> bool:
        left = set(threading.enumerate()) - threads
        return not any(one.name.startswith(("rocketmq", "ons")) for one in left)

    until(is_alone)  # a thread that was busy to the end of its time ends by itself


@pytest.fixture
def shut_down_by_signal(client: Any) -> Iterator[threading.Event]:
    """Let SIGUSR1 shut the client down; the event says that the handler has begun."""
    begun = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        begun.set()
        client.shutdown()

    before = signal.signal(signal.SIGUSR1, handle)
    yield begun
    signal.signal(signal.SIGUSR1, before)


def error_of(call: Callable[[], object]) -> type[BaseException] | None:
    """Call, and give what was raised: of ONS what its own error was raised from."""
    try:
        call()
    except ONSClientException as error:
        return None if error.__cause__ is None else type(error.__cause__)
    except Exception as error:  # noqa: BLE001 - its type is what a test looks at
        return type(error)
    return None


def is_running(client: Any) -> bool:
    running: bool = client.is_started() if hasattr(client, "is_started") else client.is_running
    return running


# --- the rules ----------------------------------------------------------------------------------


def test_a_client_runs_from_its_start_to_its_shutdown(client: Any) -> None:
    assert not is_running(client)
    assert error_of(client.check_running) is NotStartedError
    client.start()
    assert is_running(client)
    assert error_of(client.check_running) is None
    client.shutdown()
    assert not is_running(client)
    assert error_of(client.check_running) is ClientClosedError


def test_a_block_starts_and_ends_it_and_takes_one_that_runs(client: Any) -> None:
    with client as entered:
        assert entered is client
        with client:
            assert is_running(client)
        assert not is_running(client)
    assert error_of(client.__enter__) is ClientClosedError


@pytest.mark.case("T3")
@pytest.mark.parametrize("client", OF_THE_SDK, indirect=True)
def test_a_second_start_is_refused_and_it_goes_on(client: Any) -> None:
    client.start()
    with pytest.raises(MQClientException, match="starts once"):
        client.start()
    assert is_running(client)


@pytest.mark.parametrize("client", OF_ONS, indirect=True)
def test_of_ons_a_second_start_does_nothing(client: Any) -> None:
    client.start()
    client.start()
    assert is_running(client)


@pytest.mark.case("T4")
def test_a_second_shutdown_does_nothing_and_the_end_is_final(client: Any) -> None:
    client.start()
    client.shutdown()
    client.shutdown()
    assert error_of(client.start) is ClientClosedError


def test_a_shutdown_before_the_start_is_not_forgotten(client: Any) -> None:
    client.shutdown()
    assert error_of(client.start) is ClientClosedError
    assert not is_running(client)


def test_many_threads_may_shut_it_down_and_each_returns_when_it_is_over(client: Any) -> None:
    client.start()
    together, over = threading.Barrier(8), []

    def end() -> None:
        together.wait(WAIT_S)
        client.shutdown()
        over.append(is_running(client))

    threads = [threading.Thread(target=end) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert over == [False] * 8


def test_a_signal_handler_may_shut_it_down_in_the_middle_of_its_start(
    client: Any, shut_down_by_signal: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = ClientInstance.start

    def interrupted(instance: ClientInstance) -> None:
        start(instance)
        signal.raise_signal(signal.SIGUSR1)

    monkeypatch.setattr(ClientInstance, "start", interrupted)
    assert error_of(client.start) is ClientClosedError
    assert shut_down_by_signal.is_set()
    assert not is_running(client)


def test_a_signal_handler_may_shut_it_down_in_the_middle_of_its_shutdown(
    client: Any, shut_down_by_signal: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutdown = ClientInstance.shutdown

    def interrupted(instance: ClientInstance, timeout: float) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert shut_down_by_signal.wait(WAIT_S)
        shutdown(instance, timeout)

    monkeypatch.setattr(ClientInstance, "shutdown", interrupted)
    client.start()
    client.shutdown()
    assert shut_down_by_signal.is_set()
    assert error_of(client.check_running) is ClientClosedError


@pytest.mark.case("T99")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_by_name_and_ends_nothing_of_its_parent(client: Any) -> None:
    client.start()
    child = os.fork()
    if child == 0:
        try:
            calls = (client.start, client.check_running, client.__enter__)
            refused = [error_of(call) for call in calls] == [ForkedClientError] * 3
            client.shutdown()
            os._exit(0 if refused and not is_running(client) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert is_running(client)
