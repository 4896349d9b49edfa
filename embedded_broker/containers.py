"""RocketMQ for testcontainers: ``from embedded_broker.containers import RocketMQContainer``.

Needs the extra ``containers``: ``pip install 'rocketmq-py[containers]'``. Works with Docker, and
with Podman's service as ``DOCKER_HOST``.
"""

from embedded_broker.kit.rocketmq_container import BrokerRegistered, RocketMQContainer

__all__ = ["BrokerRegistered", "RocketMQContainer"]
