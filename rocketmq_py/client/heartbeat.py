"""How brokers learn who is here, and who went away: requests 34 and 35.

What a heartbeat says about the groups of a client (``MQClientInstance.prepareHeartbeatData``), and
the goodbye of one group. All brokers are told side by side, and none is waited for by the others.
Failures are logged, never raised: the next heartbeat mends them. Must not know when one is due;
that is ``instance.py``.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

from rocketmq_py.client.asking import Address, Asker, Question, nothing
from rocketmq_py.client.consumer_face import ConsumerFace
from rocketmq_py.client.unreachable_servers import UnreachableServers
from rocketmq_py.errors import MQBrokerException
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import UnregisterClientRequestHeader

UNREGISTER_TIMEOUT_MS = 1_000


def heartbeat_body(
    client_id: str,
    producer_groups: Iterable[str],
    consumers: Iterable[ConsumerFace],
    *,
    unit_mode: bool,
) -> bytes:
    """Write the body of a heartbeat."""
    return HeartbeatData(
        client_id=client_id,
        producer_data_set=[ProducerData(group_name=group) for group in producer_groups],
        consumer_data_set=[
            ConsumerData(
                group_name=consumer.group,
                consume_type=consumer.consume_type,
                message_model=consumer.message_model,
                consume_from_where=consumer.consume_from_where,
                subscription_data_set=consumer.subscriptions(),
                unit_mode=unit_mode,
            )
            for consumer in consumers
        ],
    ).encode()


def send_heartbeat(
    asker: Asker,
    unreachable: UnreachableServers,
    address: str,
    body: bytes,
    timeout_ms: float,
    read: Callable[[RemotingCommand, str], object] = nothing,
) -> Future[None]:
    """Send one heartbeat to one broker; the future is done when it has answered or failed."""

    def report(error: BaseException | None) -> None:
        if error is None:
            unreachable.answered(address)
        else:
            unreachable.failed(address, "heartbeat", error)

    question = Question(Address(address), RequestCode.HEART_BEAT, read, body=body)
    return _reported(asker.ask(question, timeout_ms), report)


def unregister(
    asker: Asker,
    unreachable: UnreachableServers,
    address: str,
    client_id: str,
    group: str,
    *,
    producer: bool,
) -> Future[None]:
    """Tell one broker that a group of this client is gone; the future as in `send_heartbeat`."""
    header = UnregisterClientRequestHeader(
        client_id=client_id,
        producer_group=group if producer else None,
        consumer_group=None if producer else group,
    )

    def report(error: BaseException | None) -> None:
        if error is not None and not isinstance(error, MQBrokerException):
            unreachable.failed(address, f"goodbye of group {group}", error)

    code = RequestCode.UNREGISTER_CLIENT
    question = Question(Address(address), code, nothing, header.to_ext())
    return _reported(asker.ask(question, UNREGISTER_TIMEOUT_MS), report)


def _reported(answer: Future[Any], report: Callable[[BaseException | None], None]) -> Future[None]:
    """Return a future that is done when the outcome of a call is reported; it never fails."""
    told: Future[None] = Future()

    def ended(call: Future[Any]) -> None:
        try:
            report(call.exception())
        finally:
            told.set_result(None)

    answer.add_done_callback(ended)
    return told


class Told:
    """Which of some brokers were not told yet; told is also who cannot be reached."""

    def __init__(self, calls: Iterable[tuple[str, Future[None]]]) -> None:
        self._calls = dict(calls)

    def wait(self, timeout: float, address: str | None = None) -> bool:
        """Wait for one of them, or for all; False when ``timeout`` seconds were not enough."""
        wanted = self._calls.items()
        calls = [call for name, call in wanted if address is None or name == address]
        return not wait(calls, timeout).not_done
