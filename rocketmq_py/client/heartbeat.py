"""How brokers learn who is here, and who went away: requests 34 and 35.

What a heartbeat says about the groups of a client (``MQClientInstance.prepareHeartbeatData``), and
the goodbye of one group. Failures are logged, never raised: the next heartbeat mends them. Must not
know when one is due; that is ``instance.py``.
"""

import logging
from collections.abc import Iterable

from rocketmq_py.client.consumer_face import ConsumerFace
from rocketmq_py.client.remoting import Remoting
from rocketmq_py.errors import RocketMQError
from rocketmq_py.protocol.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand
from rocketmq_py.protocol.headers.client import UnregisterClientRequestHeader

_log = logging.getLogger(__name__)

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


def send_heartbeat(remoting: Remoting, address: str, body: bytes, timeout_ms: float) -> None:
    """Send one heartbeat to one broker and wait for its answer."""
    command = RemotingCommand(code=RequestCode.HEART_BEAT, body=body)
    try:
        answer = remoting.invoke(address, command, timeout_ms)
    except RocketMQError as error:
        _log.warning("heartbeat failed broker=%s: %s", address, error)
        return
    if answer.code != ResponseCode.SUCCESS:
        _log.warning("heartbeat refused broker=%s code=%d: %s", address, answer.code, answer.remark)


def unregister(
    remoting: Remoting, address: str, client_id: str, group: str, *, producer: bool
) -> None:
    """Tell one broker that a group of this client is gone."""
    header = UnregisterClientRequestHeader(
        client_id=client_id,
        producer_group=group if producer else None,
        consumer_group=None if producer else group,
    )
    command = RemotingCommand(code=RequestCode.UNREGISTER_CLIENT, ext_fields=header.to_ext())
    try:
        remoting.invoke(address, command, UNREGISTER_TIMEOUT_MS)
    except RocketMQError as error:
        _log.warning("unregister failed group=%s broker=%s: %s", group, address, error)
