"""What a producer consists of between `start` and `shutdown`.

Wires kernel, selection, fault records and sender to the client instance, recalls messages, and
ends everything. Must not know the public face; that is ``producer.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from rocketmq_py.client.asking import Asker
from rocketmq_py.client.outcome import told_apart
from rocketmq_py.client.recalling import recall_question
from rocketmq_py.client.topic_types import TopicTypes
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import RemotingException, RocketMQError
from rocketmq_py.message import Message
from rocketmq_py.producer.fault import BrokerFaults
from rocketmq_py.producer.selection import Choice, QueueSelection
from rocketmq_py.producer.send_kernel import SendKernel
from rocketmq_py.producer.sending import SendCallback, Sender
from rocketmq_py.producer.validation import check_recall_topic
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.handles import RecallHandle
from rocketmq_py.send_result import SendResult

if TYPE_CHECKING:
    from rocketmq_py.producer.requesting import Requester
    from rocketmq_py.producer.tracing import ProducerTracing

DETECT_EVERY_MS = 3_000
WARM_UP_S = 1.0
WORKERS_END_S = 0.15
"""Those that wait for a server see within a part of it that they need not."""


class ProducerEngine:
    """What exists between `start` and `shutdown`."""

    def __init__(self, kernel: SendKernel, tracing: ProducerTracing | None = None) -> None:
        self.kernel = kernel
        self.tracing = tracing
        self.instance = instance = kernel.instance
        self._group = kernel.group
        self._config = config = kernel.config
        self.faults = BrokerFaults(
            enabled=config.send_latency_enable,
            detecting=config.start_detector_enable,
            table=config.fault_table,
            detect_interval_ms=config.detect_interval,
        )
        selection = QueueSelection(self.faults, self._silent_brokers, self._connected_brokers)
        self.sender = Sender(self.kernel, selection)
        self._requester: Requester | None = None
        self._detector = None
        if config.send_latency_enable and config.start_detector_enable:
            self._detector = instance.schedule_every(
                DETECT_EVERY_MS,
                DETECT_EVERY_MS,
                lambda: instance.submit_background(self.faults.detect, self._answers),
            )

    def warm_up(self, topics: Iterable[str]) -> None:
        """Look topics up before they are needed, and tell their brokers who is here.

        Takes no longer than a start may; a failure will be told by the first send.
        """
        deadline = monotonic() + WARM_UP_S
        for topic in topics:
            left_ms = (deadline - monotonic()) * 1000
            if left_ms <= 0:
                break
            try:
                self.instance.routes.update(topic, left_ms)
            except RocketMQError as error:
                self.instance.routes.log_failure(topic, error)
        self.instance.send_heartbeats(group=self._group)

    @property
    def requester(self) -> Requester:
        """Who sends requests and waits for their replies."""
        requester = self._requester
        if requester is None:
            from rocketmq_py.producer.requesting import Requester  # most producers only send

            requester = self._requester = Requester(self.sender)
        return requester

    def send_async(
        self,
        message: Message,
        timeout_ms: int,
        callback: SendCallback | None,
        choose: Choice | None,
    ) -> Future[SendResult]:
        """Begin a send without waiting; that a message cannot be sent is an outcome, too."""
        try:
            outgoing = self.kernel.prepare(message)
        except RocketMQError as error:
            return self.sender.refused(error, callback)
        return self.sender.send_async(outgoing, timeout_ms, callback, choose)

    def recall(self, topic: str, handle: str | RecallHandle | None) -> str:
        """Ask the master of the broker that is named in the handle."""
        check_recall_topic(topic)
        question = recall_question(topic, handle, self._group)
        noting = nullcontext() if self.tracing is None else self.tracing.recall(topic, handle)
        with noting:
            return Asker(self.instance).answer(question, self._config.send_msg_timeout)

    def recall_async(self, topic: str, handle: str | RecallHandle | None) -> Future[str]:
        """Ask the master of the broker that is named in the handle, without waiting."""
        check_recall_topic(topic)
        question = recall_question(topic, handle, self._group)
        answer = Asker(self.instance).ask(question, self._config.send_msg_timeout)
        if self.tracing is not None:
            noting = self.tracing.recall(topic, handle)

            def note(done: Future[str]) -> None:
                with suppress(RocketMQError), noting:
                    done.result()

            answer.add_done_callback(note)
        return told_apart(self.instance, answer)

    @cached_property
    def topic_types(self) -> TopicTypes:
        """Who knows the types of topics."""
        return TopicTypes(self.instance)

    def _silent_brokers(self) -> Collection[str]:
        """Give the brokers whose masters do not answer now."""
        silent = self.instance.connections.silent
        return self.instance.routes.masters_at(silent) if silent else ()

    def _connected_brokers(self) -> Collection[str]:
        return self.instance.routes.masters_at(self.instance.connections.addresses())

    def _answers(self, broker_name: str) -> bool:
        """Ask a broker something cheap."""
        from rocketmq_py.client.queue_requests import queue_request  # most producers only send

        queue = self.instance.routes.queue_of_broker(broker_name)
        address = self.instance.routes.broker_address(broker_name)
        if queue is None or address is None:
            return False
        command = queue_request(RequestCode.GET_MAX_OFFSET, queue)
        try:
            self.instance.remoting.invoke(address, command, self._config.detect_timeout)
        except RemotingException:
            return False
        return True

    def close(self, timeout: float) -> None:
        """Let unfinished sends end, then fail those that are left."""
        if self._detector is not None:
            self._detector.cancel()
        self.sender.drain(timeout)
        if self._requester is not None:
            self._requester.close()
        self.sender.close(WORKERS_END_S)
