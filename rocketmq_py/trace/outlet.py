"""How a trace message is sent: over the connections of the client whose trace it is.

One attempt, and another one at another broker; no hook for sends sees it, so there is no trace of
trace. Must not know records. Read on: ``dispatcher.py`` for who sends, ``../client/queue_sends.py``
for the request.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from itertools import count
from random import choice
from typing import Final

from rocketmq_py.client.asking import Asker
from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.client.queue_sends import RawSend, SendRun, send_of
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import ClientClosedError, RocketMQError
from rocketmq_py.protocol.handles import UniqIdGenerator
from rocketmq_py.protocol.names import TRACE_GROUP_PREFIX
from rocketmq_py.protocol.properties import Prop, encode_properties
from rocketmq_py.send_result import MessageQueue

TIMEOUT_S: Final = 5.0
ATTEMPTS: Final = 2
ENDED: Final = "the client has ended"

_serial = count(1)


class InstanceOutlet:
    """Sends the trace messages of one client; ``kind`` is PRODUCE or CONSUME, as of Java's group.

    For one thread, but `stop` may come from any.
    """

    def __init__(
        self, instance: ClientInstance, group: str, kind: str, ids: UniqIdGenerator
    ) -> None:
        self._instance = instance
        self._asker = Asker(instance)
        self._group = f"{TRACE_GROUP_PREFIX}-{group}-{kind}-{next(_serial)}"
        self._ids = ids
        self._stopped = threading.Event()
        self._asking: Future[RawSend] | None = None

    def send(self, topic: str, keys: Sequence[str], body: bytes) -> None:
        """Send one message, within 5 seconds.

        Raises `RocketMQError` when no broker has taken it, `ClientClosedError` after `stop`.
        """
        if self._stopped.is_set():
            raise ClientClosedError(ENDED)
        deadline = monotonic() + TIMEOUT_S
        properties = {Prop.KEYS: " ".join(keys), Prop.UNIQ_KEY: self._ids.next(), Prop.WAIT: "true"}
        encoded = encode_properties(properties).decode()
        tried: list[str] = []
        for left in range(ATTEMPTS, 0, -1):
            queues = self._queues(topic, deadline)
            fresh = [queue for queue in queues if queue.broker_name not in tried]
            queue = choice(self._answering(fresh or list(queues)))
            run = SendRun(queue, [body], [encoded])
            others = {one.broker_name for one in fresh} - {queue.broker_name}
            share = left if others else 1
            try:
                self._ask(run, topic, (deadline - monotonic()) * 1000 / share)
            except RocketMQError:
                if not others or left == 1 or self._stopped.is_set():
                    raise
                tried.append(queue.broker_name)
            else:
                return

    def _queues(self, topic: str, deadline: float) -> tuple[MessageQueue, ...]:
        left_ms = max(0.0, (deadline - monotonic()) * 1000)
        info = self._instance.routes.publish_info(topic, timeout_ms=left_ms, stop=self._stopped)
        return info.queues

    def _answering(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        """Leave out queues of brokers that answer nothing now, unless there are no others."""
        silent = self._instance.routes.masters_at(self._instance.connections.silent)
        return [queue for queue in queues if queue.broker_name not in silent] or queues

    def _ask(self, run: SendRun, topic: str, timeout_ms: float) -> None:
        unit_mode = self._instance.config.unit_mode
        question = send_of(run, self._group, topic, unit_mode=unit_mode)
        asking = self._asking = self._asker.ask(question, max(0.0, timeout_ms))
        if self._stopped.is_set():
            asking.cancel()
        try:
            asking.result()
        except CancelledError:
            raise ClientClosedError(ENDED) from None

    def stop(self) -> None:
        """Let a send that waits fail now, and all later ones at once."""
        self._stopped.set()
        asking = self._asking
        if asking is not None:
            asking.cancel()
