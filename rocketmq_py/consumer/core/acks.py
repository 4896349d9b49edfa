"""Acks of popped messages: together in one request to each broker, one request at a time.

What is settled while a request is under way goes with the next one, so acks are single while there
are few and many in one request while there are many. Nothing here blocks, and an ack that fails is
not repeated: its message comes again. It must not know lanes or listeners. Facts: 200051, and
200151, which brokers have since 5.1.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from attrs import define, field

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.consumer.core.pop_calls import AckBatch, PopCalls, Receipt, read_ack
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.protocol.command import RemotingCommand

logger = get_logger(__name__)

TOGETHER_MAX: Final = 256
"""Acks of one request at most."""


class _Ack(NamedTuple):
    receipt: Receipt
    ended: Callable[[], object]


@define(eq=False)
class _Broker:
    """What waits for a broker; ``under_way`` are its requests that have no answer yet."""

    waiting: deque[_Ack] = field(factory=deque)
    under_way: int = 0
    takes_batches: bool = True


@define(eq=False, repr=False)
class Acks:
    """The acks of one consumer. Every method may be called by any thread."""

    _engine: ClientInstance
    _group: str
    _calls: PopCalls
    _turn: threading.Condition = field(factory=threading.Condition, init=False)
    _brokers: dict[str, _Broker] = field(factory=dict, init=False)

    def put(self, receipt: Receipt, ended: Callable[[], object] = lambda: None) -> None:
        """Ack a message soon; ``ended`` is called when the broker has answered, or could not."""
        name = receipt.handle.broker_name
        with self._turn:
            broker = self._brokers.setdefault(name, _Broker())
            broker.waiting.append(_Ack(receipt, ended))
            if broker.under_way:
                return
            broker.under_way = 1
        self._run(self._send, broker)

    def unwanted(self, receipts: Iterable[Receipt]) -> None:
        """Ack messages that no listener gets."""
        for receipt in receipts:
            self.put(receipt)

    def wait(self, timeout_s: float) -> bool:
        """Wait until every ack has its answer; False: some have none yet."""
        with self._turn:
            return self._turn.wait_for(lambda: not self._has_work(), timeout_s)

    def _has_work(self) -> bool:
        return any(broker.under_way for broker in self._brokers.values())

    def _run(self, task: Callable[..., object], *args: object) -> None:
        """Leave the caller's thread, which may be one that must not wait for a route."""
        if not self._engine.submit(task, *args):
            task(*args)

    def _send(self, broker: _Broker) -> None:
        """Send what waits; the caller counts as one request that is under way."""
        with self._turn:
            acks: dict[Receipt, list[_Ack]] = {}
            for _ in range(min(len(broker.waiting), TOGETHER_MAX)):
                ack = broker.waiting.popleft()
                acks.setdefault(ack.receipt, []).append(ack)
            together = broker.takes_batches and len(acks) > 1
        for batch in self._asked([*acks], together=together):
            with self._turn:
                broker.under_way += 1
            some = [ack for receipt in batch.receipts for ack in acks[receipt]]
            batch.answer.add_done_callback(partial(self._run, self._answered, broker, some))
        self._ended(broker)

    def _asked(self, receipts: list[Receipt], *, together: bool) -> list[AckBatch]:
        try:
            if together:
                return self._calls.ask_ack_batch(receipts)
            return [AckBatch([one], self._calls.ask_ack(one)) for one in receipts]
        except Exception as error:  # noqa: BLE001 - of hooks too: whoever waits must not for ever
            failed: Future[RemotingCommand] = Future()
            failed.set_exception(error)
            return [AckBatch(receipts, failed)]

    def _answered(self, broker: _Broker, acks: list[_Ack], answer: Future[RemotingCommand]) -> None:
        topic = acks[0].receipt.topic
        try:
            if not read_ack(answer.result(), topic):
                logger.debug("group %s: %d acks of %s came too late", self._group, len(acks), topic)
        except Exception as error:  # noqa: BLE001 - of hooks and peers too
            if len(acks) > 1 and _lacks_batches(error):
                with self._turn:
                    broker.takes_batches = False
                    broker.waiting.extendleft(reversed(acks))
                acks = []
            else:
                what = f"group {self._group}: acks of {len(acks)} messages of {topic}"
                name = acks[0].receipt.handle.broker_name
                self._engine.unreachable.failed(name, what, error)
        for ack in acks:
            ack.ended()
        self._ended(broker)

    def _ended(self, broker: _Broker) -> None:
        """Count a request as ended; the last one sends what has come meanwhile."""
        with self._turn:
            if broker.under_way == 1 and broker.waiting:
                again = True
            else:
                broker.under_way -= 1
                again = False
                self._turn.notify_all()
        if again:
            self._run(self._send, broker)


def _lacks_batches(error: BaseException) -> bool:
    code = error.code if isinstance(error, MQBrokerException) else ResponseCode.SUCCESS
    return code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
