"""The asyncio producer: the sends of one event loop, which is never blocked."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from rocketmq_py import (
    ClientClosedError,
    IllegalStateError,
    Message,
    MessageQueue,
    NoRouteError,
    NotStartedError,
    ProducerConfig,
    SendTimeoutError,
    aio,
    running_clients,
)
from rocketmq_py.aio.engine import LARGE_BODY
from rocketmq_py.errors import ConfigError, MQClientException, SendFailedError
from rocketmq_py.producer import send_kernel
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.compression import compress
from tests.unit.rocketmq_py.aio.conftest import GUARD_S, SEND, Held
from tests.unit.rocketmq_py.scripted import ScriptedCluster

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


class Threads:
    """An RPC hook that knows which thread has begun which request."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}

    def before_request(self, address: str, request: RemotingCommand) -> None:
        self.of.setdefault(request.code, threading.get_ident())

    def after_response(self, *_: object) -> None:
        pass


def test_a_send_gives_the_result_and_the_message_its_id(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        message = Message("T", b"x")
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            result = await producer.send(message)
        assert result.msg_id == message.properties["UNIQ_KEY"]
        assert result.queue_offset == 7

    asyncio.run(main())


def test_start_and_shutdown_ask_servers_on_another_thread(cluster: ScriptedCluster) -> None:
    threads = Threads()

    async def main() -> None:
        hooks: Any = {"topics": ["T"], "rpc_hooks": [threads]}
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **hooks) as producer:
            await producer.send(Message("T", b"x"))

    asyncio.run(main())
    me = threading.get_ident()
    assert threads.of[ROUTE] != me
    assert threads.of[RequestCode.UNREGISTER_CLIENT] != me
    assert threads.of[SEND] == me


def test_a_large_body_and_a_batch_are_made_ready_on_another_thread(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def noting(*args: Any) -> bytes:
        threads.append(threading.get_ident())
        return compress(*args)

    monkeypatch.setattr(send_kernel, "compress", noting)
    hook = Threads()

    async def main() -> None:
        hooks: Any = {"topics": ["T"], "rpc_hooks": [hook]}
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, **hooks) as producer:
            assert (await producer.send(Message("T", b"x" * LARGE_BODY))).msg_id
            result = await producer.send_batch([Message("T", b"a"), Message("T", b"b")])
            assert result.msg_id.count(",") == 1

    asyncio.run(main())
    assert len(threads) == 1
    me = threading.get_ident()
    assert me not in threads
    assert hook.of[RequestCode.SEND_BATCH_MESSAGE] != me


def test_what_cannot_be_sent_is_an_exception_of_the_sdk(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            with pytest.raises(MQClientException):
                await producer.send(Message("T", b""))
            with pytest.raises(MQClientException, match="max_message_size"):
                await producer.send(Message("T", b"x" * 5_000_000))
            with pytest.raises(NoRouteError):
                await producer.send(Message("unknown", b"x"))
            with pytest.raises(MQClientException, match="a Message is needed, not str"):
                await producer.send("text")  # type: ignore[call-overload]
            with pytest.raises(MQClientException, match="not the queue's topic"):
                await producer.send(Message("T", b"x"), queue=MessageQueue("U", "b", 0))
            with pytest.raises(ConfigError, match="timeout"):
                await producer.send(Message("T", b"x"), timeout=0)
            with pytest.raises(ConfigError, match="timeout"):
                await producer.send(Message("T", b"x"), timeout=timedelta(microseconds=1))
            with pytest.raises(MQClientException, match="recall"):
                await producer.recall("T", None)

    asyncio.run(main())
    assert cluster.sends() == []


def test_a_refusal_and_a_time_out_are_those_of_the_threads_producer(
    cluster: ScriptedCluster,
) -> None:
    broker = cluster.brokers[0]

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            broker.answer(SEND, ResponseCode.SYSTEM_BUSY)
            with pytest.raises(SendFailedError):
                await producer.send(Message("T", b"x"))
            broker.silent(SEND)
            with pytest.raises(SendTimeoutError) as caught:
                await producer.send(Message("T", b"x"), timeout=timedelta(milliseconds=50))
            assert caught.value.possibly_stored

    asyncio.run(main())


def test_a_busy_broker_is_left_for_another_one_by_sends_batches_and_transactions() -> None:
    cluster = ScriptedCluster(2)
    for code in (SEND, RequestCode.SEND_BATCH_MESSAGE):
        cluster.brokers[0].answer(code, ResponseCode.SYSTEM_BUSY)
    cluster.brokers[1].answer(RequestCode.END_TRANSACTION, ResponseCode.SUCCESS)

    async def main() -> set[str]:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            taken = []
            while not cluster.brokers[0].of(SEND):  # it has the turn at one of these
                taken.append(await producer.send(Message("T", b"x")))
            for _ in range(2):
                taken.append(await producer.send_batch([Message("T", b"x")]))
                async with producer.transaction(Message("T", b"x")) as half:
                    taken.append(half.result)
        return {one.message_queue.broker_name for one in taken}

    try:
        assert asyncio.run(main()) == {"broker-b"}
    finally:
        cluster.close()


def test_a_selector_runs_on_the_loops_thread_and_a_queue_can_be_named(
    cluster: ScriptedCluster,
) -> None:
    seen: list[tuple[int, int, object]] = []

    def select(queues: Sequence[MessageQueue], _: Message, arg: object) -> MessageQueue:
        seen.append((threading.get_ident(), len(queues), arg))
        return queues[2]

    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr, topics=["T"]) as producer:
            chosen = await producer.send(Message("T", b"x"), selector=select, arg=7)
            assert chosen.message_queue.queue_id == 2
            queues = await producer.fetch_publish_message_queues("T")
            named = await producer.send(Message("T", b"x"), queue=queues[3])
            assert named.message_queue == queues[3]
            await producer.send_oneway(Message("T", b"x"), queue=queues[1])

    asyncio.run(main())
    assert seen == [(threading.get_ident(), 4, 7)]
    assert cluster.brokers[0].wait_for(SEND, 3)[2].ext_fields["e"] == "1"


def test_sends_that_a_task_awaits_keep_their_order(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            for number in range(20):
                await producer.send(Message("T", b"%d" % number))

    asyncio.run(main())
    assert [one.body for one in cluster.sends()] == [b"%d" % number for number in range(20)]


def test_a_send_lets_other_tasks_have_their_turn_even_when_its_outcome_is_there_at_once(
    cluster: ScriptedCluster,
) -> None:
    async def main() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            beside = asyncio.create_task(other())
            for _ in range(3):
                with pytest.raises(MQClientException):
                    await producer.send(Message("T", b""))
            assert turns >= 3
            beside.cancel()

    asyncio.run(main())


# --- life --------------------------------------------------------------------------------------


def test_before_the_start_and_after_the_end_nothing_can_be_sent(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        producer = aio.Producer("G", namesrv_addr=cluster.namesrv_addr)
        with pytest.raises(NotStartedError, match=r"aio.Producer\('G', new\) is not started"):
            await producer.send(Message("T", b"x"))
        async with producer:
            assert producer.client_id in {one.client_id for one in running_clients()}
            async with asyncio.timeout(GUARD_S):
                await producer.send(Message("T", b"x"))
        await producer.shutdown()
        with pytest.raises(ClientClosedError, match=r"aio.Producer\('G', closed\)"):
            await producer.send(Message("T", b"x"))

    asyncio.run(main())


def test_a_cancelled_start_leaves_nothing_behind(cluster: ScriptedCluster) -> None:
    asked, answers = threading.Event(), threading.Event()

    def route(request: RemotingCommand, _: object) -> RemotingCommand:
        asked.set()
        answers.wait(GUARD_S)
        return request.answer(ResponseCode.TOPIC_NOT_EXIST)

    cluster.name_server.on(ROUTE, route)
    producer = aio.Producer("cancelled", namesrv_addr=cluster.namesrv_addr, topics=["T"])

    async def main() -> None:
        starting = asyncio.create_task(producer.start())
        await asyncio.to_thread(asked.wait, GUARD_S)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        answers.set()

    asyncio.run(main())
    assert repr(producer) == "aio.Producer('cancelled', closed)"
    assert "cancelled" not in str(running_clients())


def test_a_with_block_starts_and_ends_it_around_the_loop(cluster: ScriptedCluster) -> None:
    producer = aio.Producer("G", namesrv_addr=cluster.namesrv_addr)

    async def main() -> None:
        assert (await producer.send(Message("T", b"x"))).msg_id
        with pytest.raises(IllegalStateError, match="write async with"):
            producer.__enter__()

    with producer:
        asyncio.run(main())
    assert repr(producer) == "aio.Producer('G', closed)"


def test_a_shutdown_waits_for_sends_in_flight(cluster: ScriptedCluster, held: Held) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            await held.arrived(1)
            ending = asyncio.create_task(producer.shutdown(GUARD_S))
            held.answer()
            assert (await sending).msg_id
            await ending

    asyncio.run(main())


def test_a_send_that_the_end_of_the_producer_ends_says_whether_it_may_be_stored(
    cluster: ScriptedCluster, held: Held
) -> None:
    async def main() -> None:
        async with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
            sending = asyncio.create_task(producer.send(Message("T", b"x")))
            await held.arrived(1)
            await producer.shutdown(0)
            with pytest.raises(ClientClosedError, match="a broker may have stored"):
                await sending

    asyncio.run(main())


def test_a_producer_cannot_be_pickled(cluster: ScriptedCluster) -> None:
    with pytest.raises(TypeError, match=r"pickle ProducerConfig\.of\(producer\)"):
        pickle.dumps(aio.Producer("G", namesrv_addr=cluster.namesrv_addr))


# --- settings ----------------------------------------------------------------------------------


def test_a_producer_is_its_settings_which_its_sends_obey(cluster: ScriptedCluster) -> None:
    base = ProducerConfig(namesrv_addr=cluster.namesrv_addr, max_message_size=1)
    producer = aio.Producer.of(base, "G", send_msg_timeout=timedelta(seconds=5))
    assert isinstance(producer, ProducerConfig)
    assert (producer.producer_group, producer.send_msg_timeout) == ("G", 5_000)
    assert producer.config is producer
    assert pickle.loads(pickle.dumps(ProducerConfig.of(producer))).max_message_size == 1  # noqa: S301 - our own bytes

    async def main() -> None:
        producer.producer_group = "H"
        async with producer:
            assert producer.is_running
            assert repr(producer) == "aio.Producer('H', running)"
            assert running_clients()[-1].producer_groups == ("H",)
            with pytest.raises(MQClientException, match="max_message_size"):
                await producer.send(Message("T", b"xy"))
            producer.max_message_size = 2
            await producer.send(Message("T", b"xy"))
        assert not producer.is_running

    asyncio.run(main())
    assert [one.body for one in cluster.sends()] == [b"xy"]


@pytest.mark.parametrize("name", ["producer_group", "namesrv_addr", "connect_timeout"])
def test_what_start_has_read_cannot_be_assigned_any_more(
    cluster: ScriptedCluster, name: str
) -> None:
    async def main() -> None:
        producer = aio.Producer("G", namesrv_addr=cluster.namesrv_addr)
        producer.connect_timeout = 5_000
        async with producer:
            with pytest.raises(ConfigError, match=f"{name}.*start.. has read this setting"):
                setattr(producer, name, 1 if name == "connect_timeout" else "x:1")

    asyncio.run(main())


def test_a_running_producer_takes_other_name_servers(cluster: ScriptedCluster) -> None:
    async def main() -> None:
        producer = aio.Producer("G", namesrv_addr="127.0.0.1:1")
        async with producer:
            producer.update_name_server_address(cluster.namesrv_addr)
            await producer.send(Message("T", b"x"))
            assert producer.namesrv_addr == cluster.namesrv_addr

    asyncio.run(main())


def test_help_shows_each_setting_and_an_unknown_one_names_the_nearest() -> None:
    assert "send_msg_timeout" in (inspect.getdoc(aio.Producer) or "")
    assert "send_msg_timeout" in inspect.signature(aio.Producer).parameters
    with pytest.raises(TypeError, match=r"Producer has no setting .* mean send_msg_timeout"):
        aio.Producer(send_msg_timeot=1)  # type: ignore[call-arg] # the mistake
    with pytest.raises(AttributeError, match="mean send_msg_timeout"):
        aio.Producer().send_msg_timeot = 1  # type: ignore[attr-defined] # the mistake
    with pytest.raises(TypeError, match="transaction_check is a coroutine function, not int"):
        aio.Producer().transaction_check = 5  # type: ignore[assignment] # the mistake


# --- loops -------------------------------------------------------------------------------------


def test_another_loop_is_refused_whether_the_first_one_runs_or_has_closed(
    cluster: ScriptedCluster,
) -> None:
    producer = aio.Producer("G", namesrv_addr=cluster.namesrv_addr)

    async def send() -> None:
        await producer.send(Message("T", b"x"))

    async def main() -> None:
        await send()
        with pytest.raises(IllegalStateError, match="which is another one: make a producer for"):
            await asyncio.to_thread(asyncio.run, send())

    with producer:
        asyncio.run(main())
        with pytest.raises(IllegalStateError, match="which has closed"):
            asyncio.run(send())


def test_without_asyncio_a_call_says_what_it_needs(cluster: ScriptedCluster) -> None:
    with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
        sending = producer.send(Message("T", b"x"))
        with pytest.raises(IllegalStateError, match="needs asyncio"):
            sending.send(None)


def test_a_process_may_run_one_loop_after_the_other_and_several_at_once(
    cluster: ScriptedCluster,
) -> None:
    async def main(group: str) -> str:
        async with aio.Producer(group, namesrv_addr=cluster.namesrv_addr) as producer:
            results = await asyncio.gather(*(producer.send(Message("T", b"x")) for _ in range(50)))
            return results[-1].msg_id

    ids = [asyncio.run(main("G")), asyncio.run(main("G"), debug=True)]
    threads = [
        threading.Thread(target=lambda n=n: ids.append(asyncio.run(main(f"G{n}"))))
        for n in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    assert len(set(ids)) == 5
    assert len(cluster.sends()) == 250


def test_an_outcome_that_comes_when_the_loop_has_closed_harms_nobody(
    cluster: ScriptedCluster, held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    async def begin(producer: aio.Producer) -> asyncio.Task[Any]:
        sending = asyncio.create_task(producer.send(Message("T", b"x")))
        await held.arrived(1)
        return sending

    with aio.Producer("G", namesrv_addr=cluster.namesrv_addr) as producer:
        loop = asyncio.new_event_loop()
        sending = loop.run_until_complete(begin(producer))
        loop.close()
        held.answer()
        producer._threaded.shutdown(GUARD_S)  # waits for the outcome
        assert producer._calls is not None
        assert producer._calls.outcomes.book.told() is None
    assert not sending.done()
    assert caplog.messages == []
    sending._log_destroy_pending = False  # type: ignore[attr-defined] # it is meant
    del sending
