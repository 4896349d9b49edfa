"""RocketMQ for testcontainers: ``from embedded_broker.containers import RocketMQContainer``.

Needs the extra ``containers``: ``pip install 'rocketmq-py[containers]'``. Works with Docker, and
with Podman's service as ``DOCKER_HOST``.
"""

try:
    from embedded_broker.kit.rocketmq_container import BrokerRegistered, RocketMQContainer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"RocketMQContainer needs testcontainers ({error}): pip install 'rocketmq-py[containers]'",
        name=error.name,
    ) from error

__all__ = ["BrokerRegistered", "RocketMQContainer"]
