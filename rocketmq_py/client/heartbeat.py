"""How brokers learn who is here, and who went away: requests 34 and 35.

What a heartbeat says about the groups of a client (``MQClientInstance.prepareHeartbeatData``), and
the goodbye of one group. All brokers are told side by side, and none is waited for by the others.
Failures are logged, never raised: the next heartbeat mends them. Must not know when one is due;
that is ``instance.py``.
"""

import threading
from collections.abc import Callable, Collection, Iterable

from rocketmq_py.client.absences import Absences
from rocketmq_py.client.answers import broker_error
from rocketmq_py.client.consumer_face import ConsumerFace
from rocketmq_py.client.remoting import Remoting
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import UnregisterClientRequestHeader
from rocketmq_py.transport.calls import Done

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
    remoting: Remoting,
    absences: Absences,
    address: str,
    body: bytes,
    timeout_ms: float,
    told: Callable[[], object],
) -> None:
    """Send one heartbeat to one broker; ``told`` is called when it has answered or failed."""
    command = RemotingCommand(code=RequestCode.HEART_BEAT, body=body)

    def done(answer: RemotingCommand | None, error: RocketMQError | None) -> None:
        if answer is None:
            absences.failed(address, "heartbeat", error)
        elif answer.code != ResponseCode.SUCCESS:
            absences.failed(address, "heartbeat", broker_error(answer, address))
        else:
            absences.answered(address)
        told()

    _begin(remoting, address, command, timeout_ms, done)


def unregister(
    remoting: Remoting,
    absences: Absences,
    address: str,
    client_id: str,
    group: str,
    told: Callable[[], object],
    *,
    producer: bool,
) -> None:
    """Tell one broker that a group of this client is gone; ``told`` as in `send_heartbeat`."""
    header = UnregisterClientRequestHeader(
        client_id=client_id,
        producer_group=group if producer else None,
        consumer_group=None if producer else group,
    )
    command = RemotingCommand(code=RequestCode.UNREGISTER_CLIENT, ext_fields=header.to_ext())

    def done(_: RemotingCommand | None, error: RocketMQError | None) -> None:
        if error is not None:
            absences.failed(address, f"goodbye of group {group}", error)
        told()

    _begin(remoting, address, command, UNREGISTER_TIMEOUT_MS, done)


def _begin(
    remoting: Remoting, address: str, command: RemotingCommand, timeout_ms: float, done: Done
) -> None:
    try:
        remoting.begin(address, command, timeout_ms, done)
    except RocketMQError as error:
        done(None, error)


class Told:
    """Which of some brokers were not told yet; told is also who cannot be reached."""

    def __init__(self, addresses: Collection[str]) -> None:
        self._left = set(addresses)
        self._changed = threading.Condition()

    def one(self, address: str) -> None:
        """Count one of them."""
        with self._changed:
            self._left.discard(address)
            self._changed.notify_all()

    def wait(self, timeout: float, address: str | None = None) -> bool:
        """Wait for one of them, or for all; False when ``timeout`` seconds were not enough."""
        with self._changed:
            if address is not None:
                return self._changed.wait_for(lambda: address not in self._left, timeout)
            return self._changed.wait_for(lambda: not self._left, timeout)
