"""A client instance for tests of the consumer: nothing runs and nothing is sent by itself.

Calls are answered by functions of the test, pulls stay open until the test completes them, and
scheduled or submitted work runs when the test says so, in the test's thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, cast

from rocketmq_py.client.background import TimerHandle, WorkerPool
from rocketmq_py.client.heartbeat import Told
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.routes import RouteTable
from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.errors import NoRouteError, RemotingConnectException, RocketMQError
from rocketmq_py.message import MessageExt
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.consume import PullMessageResponseHeader
from rocketmq_py.protocol.properties import encode_properties
from rocketmq_py.protocol.tag_hash import tags_code
from rocketmq_py.send_result import MessageQueue
from rocketmq_py.transport.calls import Done
from tests.records import encode_record

GROUP = "group-under-test"
ME = "10.0.0.1@1#1"
RIVAL = "10.0.0.2@2#2"
ADDRESS = "10.0.0.9:10911"
BROKER = "broker-a"
HOST = bytes([10, 0, 0, 9, 0, 0, 0x2A, 0x9F])


class Writable(NamedTuple):
    queues: tuple[MessageQueue, ...]


class FakeHandle(TimerHandle):
    def __init__(self, delay_ms: float, task: Callable[[], object]) -> None:
        self.delay_ms = delay_ms
        self.task = task
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = now_ms

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, tz=UTC)


class FakeEngine(ClientInstance):
    """Is its own routes and connections, too."""

    is_running = True

    def __init__(self) -> None:
        self.routes = self.remoting = self.connections = cast("Any", self)
        self.silent: frozenset[str] = frozenset()
        self.client_id = ME
        self.queues: dict[str, tuple[MessageQueue, ...]] = {}
        self.name_server: dict[str, tuple[MessageQueue, ...]] = {}
        self.addresses: dict[tuple[str, int], str] = {(BROKER, 0): ADDRESS}
        self.answers: dict[int, Callable[[RemotingCommand], RemotingCommand]] = {}
        self.calls: list[tuple[str, RemotingCommand]] = []
        self.oneways: list[RemotingCommand] = []
        self.pulls: list[tuple[RemotingCommand, Future[RemotingCommand]]] = []
        self.scheduled: list[FakeHandle] = []
        self.periodic: list[FakeHandle] = []
        self.tasks: list[Callable[[], object]] = []
        self.heartbeats = 0
        self.rebalances = 0
        self.route_questions: list[str] = []
        self.log: list[str] = []
        self.left: list[str] = []
        self.unreachable = UnreachableServers()
        self.failures: list[tuple[str, RocketMQError]] = []

    # --- what the consumer calls ---

    def look_again_soon(self, topic: str) -> None:
        self.log.append(f"look again {topic}")

    def publish_info(self, topic: str) -> Writable:
        if topic not in self.queues:
            raise NoRouteError(f"no route of {topic}")
        return Writable(self.queues[topic])

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        return self.queues.get(topic)

    def update(
        self, topic: str, timeout_ms: float | None = None, stop: threading.Event | None = None
    ) -> bool:
        self.route_questions.append(topic)
        self.log.append(f"route {topic}")
        if topic in self.name_server:
            self.queues[topic] = self.name_server[topic]
            return True
        return False

    def broker_address(
        self, broker_name: str, *, broker_id: int = 0, only_this: bool = False
    ) -> str | None:
        return self.addresses.get((broker_name, broker_id))

    def require_address(
        self,
        topic: str,
        broker_name: str,
        *,
        broker_id: int = 0,
        only_this: bool = False,
        timeout_ms: float | None = None,
    ) -> str:
        return RouteTable.require_address(
            cast("Any", self), topic, broker_name, broker_id=broker_id, only_this=only_this
        )

    def send_port(self, address: str) -> str:
        return address

    def addresses_to_ask(self, topic: str) -> list[str]:
        return [ADDRESS] if topic in self.queues else []

    def invoke(
        self, address: str, command: RemotingCommand, timeout_ms: int, *_: object
    ) -> RemotingCommand:
        self.calls.append((address, command))
        self.log.append(RequestCode(command.code).name)
        answer = self.answers.get(command.code)
        if answer is None:
            raise RemotingConnectException(f"nothing answers {RequestCode(command.code).name}")
        return answer(command)

    def invoke_async(
        self, address: str, command: RemotingCommand, timeout_ms: int
    ) -> Future[RemotingCommand]:
        if address not in self.addresses.values():
            raise RemotingConnectException(address)
        future: Future[RemotingCommand] = Future()
        if command.code != RequestCode.PULL_MESSAGE:
            try:
                future.set_result(self.invoke(address, command, timeout_ms))
            except RocketMQError as error:
                future.set_exception(error)
            return future
        self.pulls.append((command, future))
        self.log.append("PULL_MESSAGE")
        return future

    def begin(self, address: str, command: RemotingCommand, timeout_ms: int, done: Done) -> None:
        def ended(call: Future[RemotingCommand]) -> None:
            error = call.exception()
            done(None if error else call.result(), cast("RocketMQError | None", error))

        self.invoke_async(address, command, timeout_ms).add_done_callback(ended)

    def post(self, address: str, command: RemotingCommand) -> None:
        self.oneways.append(command)
        self.log.append(f"oneway {RequestCode(command.code).name}")

    def log_failure(self, topic: str, error: RocketMQError) -> None:
        self.failures.append((topic, error))

    def unregister_consumer(self, group: str, wait_s: float = 0.0) -> None:
        self.left.append(group)

    def send_heartbeats(self, wait_s: float = 0.0, *, group: str | None = None) -> Told:
        self.heartbeats += 1
        self.log.append("HEART_BEAT")
        return Told(())

    def side_by_side(self, tasks: Sequence[Callable[[], object]], wait_s: float) -> None:
        for task in tasks:
            task()

    def schedule_after(self, delay_ms: float, task: Callable[[], object]) -> FakeHandle:
        handle = FakeHandle(delay_ms, task)
        self.scheduled.append(handle)
        return handle

    def schedule_every(
        self, initial_ms: float, period_ms: float, task: Callable[[], object]
    ) -> FakeHandle:
        handle = FakeHandle(period_ms, task)
        self.periodic.append(handle)
        return handle

    def submit(self, task: Callable[..., object], *args: object) -> bool:
        self.tasks.append(partial(task, *args))
        return True

    def submit_background(self, task: Callable[..., object], *args: object) -> bool:
        return self.submit(task, *args)

    def rebalance_soon(self, group: str | None = None) -> None:
        self.rebalances += 1

    # --- what the test does ---

    def run_tasks(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()

    def run_scheduled(self) -> list[float]:
        """Run what was scheduled, return its delays."""
        due, self.scheduled = self.scheduled, []
        for handle in due:
            if not handle.cancelled:
                handle.task()
        self.run_tasks()
        return [handle.delay_ms for handle in due if not handle.cancelled]

    def complete_pull(self, answer: RemotingCommand | BaseException, at: int = -1) -> None:
        _, future = self.pulls.pop(at)
        if isinstance(answer, RemotingCommand):
            future.set_result(answer)
        else:
            future.set_exception(answer)
        self.run_tasks()

    def called(self, code: RequestCode) -> list[RemotingCommand]:
        return [command for _, command in self.calls if command.code == code]

    def stored_offsets(self) -> list[tuple[str, int, int]]:
        return [
            (ext["topic"], int(ext["queueId"]), int(ext["commitOffset"]))
            for ext in (command.ext_fields for command in self.oneways)
        ]


class InlinePool(WorkerPool):
    """Runs listeners in the test's thread, at once."""

    def __init__(self) -> None:
        super().__init__("inline", 1)

    def submit_all(self, tasks: Iterable[Callable[[], object]]) -> bool:
        for task in tasks:
            task()
        return True


def ok(ext: dict[str, str] | None = None, body: bytes = b"") -> RemotingCommand:
    return RemotingCommand(code=ResponseCode.SUCCESS, ext_fields=ext or {}, body=body)


def refusal(code: int, remark: str = "") -> RemotingCommand:
    return RemotingCommand(code=code, remark=remark)


def member_list(*ids: str) -> Callable[[RemotingCommand], RemotingCommand]:
    listed = ",".join(f'"{member}"' for member in ids)
    return lambda _: ok(body=b'{"consumerIdList":[' + listed.encode() + b"]}")


def queues_of(topic: str, count: int) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, BROKER, number) for number in range(count))


def record(
    offset: int,
    *,
    topic: str = "T",
    body: bytes = b"body",
    properties: dict[str, str] | None = None,
    reconsume_times: int = 0,
    sys_flag: int = 0,
) -> bytes:
    return encode_record(
        topic=topic,
        queue_id=0,
        flag=0,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        born_host=HOST,
        store_timestamp=1_700_000_000_001,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=body,
        properties=encode_properties(properties or {}),
    )


def pulled(
    body: bytes = b"",
    *,
    code: int = ResponseCode.SUCCESS,
    next_offset: int = 0,
    min_offset: int = 0,
    max_offset: int = 100,
    suggest: int = 0,
) -> RemotingCommand:
    header = PullMessageResponseHeader(
        suggest_which_broker_id=suggest,
        next_begin_offset=next_offset,
        min_offset=min_offset,
        max_offset=max_offset,
    )
    return RemotingCommand(code=code, ext_fields=header.to_ext(), body=body)


def message(
    offset: int, *, topic: str = "T", body: bytes = b"body", reconsume_times: int = 0
) -> MessageExt:
    return MessageExt(
        topic,
        body,
        properties={"UNIQ_KEY": f"ID{offset}"},
        broker_name=BROKER,
        queue_offset=offset,
        commit_log_offset=offset * 100,
        store_host_bytes=HOST,
        reconsume_times=reconsume_times,
    )


def same_hash(first: str, second: str) -> bool:
    return tags_code(first) == tags_code(second)
