"""Does a broker take a subscription: asked before anything is pulled with it.

Brokers filter by SQL92 conditions and alone know whether one can be read, so the client asks (46).
Tags need no question. This module must not know when it is asked. Facts:
``MQClientInstance.checkClientInBroker``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketmq_py.client.instance import ClientInstance
from rocketmq_py.clock import monotonic
from rocketmq_py.errors import MQClientException, RocketMQError
from rocketmq_py.logs import get_logger
from rocketmq_py.protocol.bodies.groups import ClientConfigCheck
from rocketmq_py.protocol.bodies.heartbeat import TAG, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.command import RemotingCommand

logger = get_logger(__name__)

LEAST_MS = 50.0


def check_subscriptions(
    engine: ClientInstance, group: str, subscriptions: Iterable[SubscriptionData], budget_s: float
) -> None:
    """Ask a broker of each topic whether it takes what is no tag expression.

    Raises MQClientException with the broker's words when one refuses. A topic without a route, and
    brokers that do not answer within ``budget_s``, are passed over: their pulls will tell.
    """
    deadline = monotonic() + budget_s
    for one in subscriptions:
        if one.expression_type == TAG:
            continue
        body = ClientConfigCheck(engine.client_id, group, subscription_data=one).encode()
        command = RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        try:
            found = _asked(engine, one.topic, command, deadline)
        except RocketMQError as error:
            logger.warning(
                "group %s: nobody says whether the subscription of %s will be taken: %s",
                group,
                one.topic,
                error,
            )
            continue
        if found is not None and found[1].code != ResponseCode.SUCCESS:
            raise _refusal(one, *found)


def _asked(
    engine: ClientInstance, topic: str, command: RemotingCommand, deadline: float
) -> tuple[str, RemotingCommand] | None:
    """Give one broker's address and its answer; None where the topic is not known yet."""
    routes = engine.routes
    if routes.subscribe_queues(topic) is None:
        routes.update(topic, _left_ms(deadline))
    addresses = routes.addresses_to_ask(topic)
    if not addresses:
        return None
    return addresses[0], engine.remoting.invoke(addresses[0], command, _left_ms(deadline))


def _left_ms(deadline: float) -> float:
    return max(LEAST_MS, (deadline - monotonic()) * 1000)


def _refusal(
    subscription: SubscriptionData, address: str, answer: RemotingCommand
) -> MQClientException:
    remark = (answer.remark or "no remark").strip()
    advice = ""
    if answer.code == ResponseCode.SYSTEM_ERROR and "not support" in remark:
        advice = ". Set enablePropertyFilter=true at the broker"
    return MQClientException(
        f"subscription of {subscription.topic}: code {answer.code} from {address} for the "
        f"{subscription.expression_type} expression {subscription.sub_string!r}: {remark}{advice}",
        response_code=answer.code,
        address=address,
        topic=subscription.topic,
    )
